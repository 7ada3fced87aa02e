import { signal } from '@preact/signals'

export type Theme = 'system' | 'light' | 'dark'
const KEY = 'sallyport-theme'
const THEMES: ReadonlySet<string> = new Set(['system', 'light', 'dark'])
const systemIsDark = matchMedia('(prefers-color-scheme: dark)')

/** The operator's choice. It is the only thing that the page keeps in the browser. */
export const theme = signal<Theme>('system')

export function applyTheme(): void {
  const found = kept()
  theme.value = THEMES.has(found) ? (found as Theme) : 'system'
  show()
  systemIsDark.addEventListener('change', show)
}

export function setTheme(next: Theme): void {
  theme.value = next
  try {
    localStorage.setItem(KEY, next)
  } catch {
    // A browser that keeps nothing keeps it for as long as the tab is there.
  }
  show()
}

function kept(): string {
  try {
    return localStorage.getItem(KEY) ?? 'system'
  } catch {
    return 'system'
  }
}

/** Colours go by the document's `data-theme`, which is light or dark: styles have each of them once. */
function show(): void {
  const system = systemIsDark.matches ? 'dark' : 'light'
  document.documentElement.dataset['theme'] = theme.value === 'system' ? system : theme.value
}

/** Tells when the page changes between light and dark: what is drawn has to be drawn anew. The answer stops it. */
export function onTheme(tell: () => void): () => void {
  const observer = new MutationObserver(tell)
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] })
  return () => observer.disconnect()
}
