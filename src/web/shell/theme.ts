import { signal } from '@preact/signals'

export type Theme = 'system' | 'light' | 'dark'
const KEY = 'sallyport-theme'
const THEMES: ReadonlySet<string> = new Set(['system', 'light', 'dark'])

/** The operator's choice. It is the only thing that the page keeps in the browser. */
export const theme = signal<Theme>('system')

export function applyTheme(): void {
  const kept = localStorage.getItem(KEY) ?? 'system'
  setTheme(THEMES.has(kept) ? (kept as Theme) : 'system')
}

export function setTheme(next: Theme): void {
  theme.value = next
  localStorage.setItem(KEY, next)
  if (next === 'system') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = next
}
