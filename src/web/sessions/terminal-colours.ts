import type { ITheme } from '@xterm/xterm'

// What programs name by number: chosen so that each can be read on the ground of its theme.
const LIGHT: ITheme = {
  black: '#17201d',
  red: '#a51d2a',
  green: '#1c6b3c',
  yellow: '#7d4e00',
  blue: '#0b62c4',
  magenta: '#8a2a8f',
  cyan: '#0f6674',
  white: '#4d5955',
  brightBlack: '#5c6864',
  brightRed: '#b3261e',
  brightGreen: '#1f7a44',
  brightYellow: '#855a00',
  brightBlue: '#1d6fd6',
  brightMagenta: '#9c36a1',
  brightCyan: '#127383',
  brightWhite: '#303a37',
}
const DARK: ITheme = {
  black: '#313a37',
  red: '#ff8b91',
  green: '#74cf97',
  yellow: '#e8b04e',
  blue: '#7db7ff',
  magenta: '#e29ae6',
  cyan: '#6fd0de',
  white: '#c9d2ce',
  brightBlack: '#81908a',
  brightRed: '#ffa9ad',
  brightGreen: '#96e3b3',
  brightYellow: '#f5cb7d',
  brightBlue: '#a5ceff',
  brightMagenta: '#f0bbf3',
  brightCyan: '#98e4ee',
  brightWhite: '#ffffff',
}

/** The colours of the page as it is now, for a terminal. */
export function terminalColours(): ITheme {
  const page = getComputedStyle(document.documentElement)
  const token = (name: string): string => page.getPropertyValue(name).trim()
  return {
    ...(page.colorScheme === 'dark' ? DARK : LIGHT),
    background: token('--sunken'),
    foreground: token('--ink'),
    cursor: token('--accent'),
    cursorAccent: token('--sunken'),
    selectionBackground: token('--focus'),
    selectionForeground: token('--surface'),
    selectionInactiveBackground: token('--line-strong'),
  }
}
