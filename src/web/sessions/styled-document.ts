/**
 * The policy of the page's document lets no style be written into it as markup: neither by `<style>` elements nor by `style` attributes.
 * xterm.js writes both. It is handed this view of the document instead: what it takes for a style element fills a constructed style sheet,
 * and the style attributes that it sets go through the object model, which the policy allows (CSP Level 3 §6.1.13, CSSOM §6.7).
 */
export type StyledDocument = {
  readonly document: Document
  /** Runs what asks the page's own document for style elements, and gives it the same. */
  during(work: () => void): void
  /** Takes the style sheets away. */
  dispose(): void
}

export function styledDocument(own: Document): StyledDocument {
  const sheets = new Set<CSSStyleSheet>()
  const take = (sheet: CSSStyleSheet): void => {
    sheets.delete(sheet)
    own.adoptedStyleSheets = own.adoptedStyleSheets.filter((one) => one !== sheet)
  }
  const styleElement = (): HTMLElement => {
    const sheet = new CSSStyleSheet()
    sheets.add(sheet)
    own.adoptedStyleSheets = [...own.adoptedStyleSheets, sheet]
    const element = Document.prototype.createElement.call(own, 'span')
    element.hidden = true
    let text = ''
    Object.defineProperty(element, 'textContent', {
      get: () => text,
      set: (next: string) => {
        text = next
        sheet.replaceSync(next)
      },
    })
    const remove = element.remove.bind(element)
    element.remove = () => {
      take(sheet)
      remove()
    }
    return element
  }
  const createElement = (name: string): HTMLElement => {
    if (name === 'style') return styleElement()
    const element = Document.prototype.createElement.call(own, name)
    element.setAttribute = setAttribute
    return element
  }
  const document = new Proxy(own, {
    get(target, key) {
      if (key === 'createElement') return createElement
      const value: unknown = Reflect.get(target, key, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
    set: (target, key, value) => Reflect.set(target, key, value, target),
  })
  return {
    document,
    during(work) {
      own.createElement = createElement
      try {
        work()
      } finally {
        Reflect.deleteProperty(own, 'createElement')
      }
    },
    dispose: () => sheets.forEach(take),
  }
}

function setAttribute(this: HTMLElement, name: string, value: string): void {
  if (name === 'style') this.style.cssText = value
  else Element.prototype.setAttribute.call(this, name, value)
}
