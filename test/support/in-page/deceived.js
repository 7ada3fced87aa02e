// What of a page deceives: text of somebody else that is not set apart from the page's own or has what shows as nothing, and what it made.
;(() => {
  const found = []
  const UNSEEN = /[^\P{C}\n]|\p{Default_Ignorable_Code_Point}/u
  const shown = (text) => JSON.stringify(text.slice(0, 90))
  const texts = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT)
  for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) {
    const text = node.data
    const element = node.parentElement
    if (UNSEEN.test(text)) found.push(`unseen characters in ${element.tagName}: ${shown(text)}`)
    if (!text.includes('MARK')) continue
    if (element.closest('bdi, option, textarea, title') === null)
      found.push(`not set apart in ${element.tagName}.${element.className}: ${shown(text)}`)
    if (text.includes('\n') && element.closest('h1, h2, h3, a, button, label, legend, .badge, td, dt, .one-line') !== null)
      found.push(`lines of its own in ${element.parentElement.tagName}: ${shown(text)}`)
  }
  for (const element of document.querySelectorAll('*')) {
    for (const { name, value } of element.attributes) {
      if (name === 'href' ? element.tagName === 'A' && !value.startsWith('#') : name.startsWith('on')) found.push(`${name}=${shown(value)}`)
      if (name !== 'value' && UNSEEN.test(value)) found.push(`unseen characters in ${name} of ${element.tagName}: ${shown(value)}`)
      if (name === 'value' && element.closest('datalist') !== null && UNSEEN.test(value))
        found.push(`an offer that deceives: ${shown(value)}`)
    }
    if (/^(?:IMG|IFRAME|SCRIPT|FORM)$/.test(element.tagName) && element.closest('bdi') !== null) found.push(`made: ${element.tagName}`)
  }
  if (document.querySelector('img, iframe') !== null) found.push('an image or a frame')
  const { scrollWidth, clientWidth } = document.documentElement
  if (scrollWidth > clientWidth) found.push(`the page is ${scrollWidth} wide in ${clientWidth}`)
  return [...new Set(found)]
})()
