// Controls that lie under something else, and a page that is wider than its window, once it was drawn.
new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))).then(() => {
  const found = []
  const root = document.documentElement
  if (root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth} wide in ${root.clientWidth}`)
  const isClipped = (element, x, y) => {
    for (let box = element.parentElement; box !== null && box !== document.body; box = box.parentElement) {
      if (getComputedStyle(box).overflowY === 'visible') continue
      const { left, right, top, bottom } = box.getBoundingClientRect()
      if (x < left || x > right || y < top || y > bottom) return true
    }
    return false
  }
  const nameOf = (element) => `${element.tagName.toLowerCase()}.${element.className} "${(element.textContent ?? '').slice(0, 40)}"`
  // What is behind a modal dialog cannot be pressed, and need not.
  const shown = [...document.querySelectorAll('dialog:modal')].at(-1) ?? document
  for (const element of shown.querySelectorAll('a[href], button, input, select, textarea, summary')) {
    if (!element.checkVisibility({ visibilityProperty: true }) || element.closest('.visually-hidden, .skip') !== null) continue
    const { left, right, top, bottom, width, height } = element.getBoundingClientRect()
    const x = (left + right) / 2
    const y = (top + bottom) / 2
    // What is out of sight is reached by scrolling.
    if (isClipped(element, x, y)) continue
    if (width === 0 || height === 0 || x < 0 || y < 0 || x >= root.clientWidth || y >= root.clientHeight) continue
    const above = document.elementFromPoint(x, y)
    if (above === null || element.contains(above) || above.contains(element) || element.labels?.[0]?.contains(above)) continue
    found.push(`${nameOf(element)} lies under ${nameOf(above)}`)
  }
  return found
})
