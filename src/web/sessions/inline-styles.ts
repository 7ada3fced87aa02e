/**
 * The policy of the page's document lets no style be written into it as markup: neither by `<style>` elements nor by `style` attributes.
 * xterm.js does both: it makes its elements when it is opened, and sets the attribute on the spans of its rows. What it takes for style
 * elements fills constructed style sheets, and its style attributes go through the object model: both of which the policy allows, since
 * only a script does that (CSP Level 3 §6.1.13, CSSOM §6.7).
 */
export type InlineStyles = {
  /** Runs what makes the elements. */
  during<T>(work: () => T): T
  /** Takes the style sheets away. */
  dispose(): void
}

let users = 0

export function inlineStyles(): InlineStyles {
  const sheets = new Set<CSSStyleSheet>()
  const take = (sheet: CSSStyleSheet): void => {
    sheets.delete(sheet)
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet)
  }
  const styleElement = (): HTMLElement => {
    const sheet = new CSSStyleSheet()
    sheets.add(sheet)
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet]
    const element = Document.prototype.createElement.call(document, 'span')
    element.hidden = true
    let text = ''
    Object.defineProperty(element, 'textContent', {
      get: () => text,
      set: (next: string) => {
        text = next
        sheet.replaceSync(next)
      },
    })
    return element
  }
  users += 1
  HTMLSpanElement.prototype.setAttribute = setAttribute
  return {
    during(work) {
      document.createElement = (name: string) => (name === 'style' ? styleElement() : Document.prototype.createElement.call(document, name))
      try {
        return work()
      } finally {
        Reflect.deleteProperty(document, 'createElement')
      }
    },
    dispose() {
      sheets.forEach(take)
      users -= 1
      if (users === 0) Reflect.deleteProperty(HTMLSpanElement.prototype, 'setAttribute')
    },
  }
}

function setAttribute(this: HTMLSpanElement, name: string, value: string): void {
  if (name === 'style') this.style.cssText = value
  else Element.prototype.setAttribute.call(this, name, value)
}
