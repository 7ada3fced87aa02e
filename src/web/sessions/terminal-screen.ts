import { FitAddon } from '@xterm/addon-fit'
import { Terminal as Xterm } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'
import { inlineStyles } from './inline-styles.ts'
import { onTheme } from '../shell/theme.ts'
import { terminalColours } from './terminal-colours.ts'

export type ScreenSize = { readonly columns: number; readonly rows: number }

export type TerminalScreen = {
  readonly size: ScreenSize
  show(bytes: Uint8Array, shown: () => void): void
  /** Empty, for another program. @param tty it has a terminal of its own, and ends lines as such */
  begin(tty: boolean): void
  /** Nothing that is typed goes anywhere. */
  end(): void
  focus(): void
  copy(): Promise<void>
  dispose(): void
}

export type ScreenEvents = {
  typed(text: string): void
  resized(size: ScreenSize): void
  selected(isAny: boolean): void
  /** By the keys that leave it. */
  left(): void
}

const SCROLLBACK_LINES = 5_000
const FONT_PIXELS = 13
const RESIZE_AFTER_MS = 100
/** WCAG 2.2 §1.4.3: also where a program chooses colours that can hardly be told apart. */
const CONTRAST_MIN = 4.5

/**
 * A terminal in an element. It draws what it is shown, and reaches nothing else: no link is followed, no title set, no bell rung, and
 * the clipboard is the operator's alone.
 * @param describedBy id of the text that says how it is left
 */
export function openScreen(element: HTMLElement, describedBy: string, events: ScreenEvents): TerminalScreen {
  const styles = inlineStyles()
  const terminal = new Xterm({
    fontFamily: getComputedStyle(document.documentElement).getPropertyValue('--mono').trim(),
    fontSize: FONT_PIXELS,
    scrollback: SCROLLBACK_LINES,
    screenReaderMode: true,
    minimumContrastRatio: CONTRAST_MIN,
    linkHandler: { activate: () => undefined },
    disableStdin: true,
    theme: terminalColours(),
  })
  const fit = new FitAddon()
  terminal.loadAddon(fit)
  styles.during(() => terminal.open(element))
  terminal.textarea?.setAttribute('aria-describedby', describedBy)
  const size = (): ScreenSize => ({ columns: terminal.cols, rows: terminal.rows })
  const copy = async (): Promise<void> => {
    if (terminal.hasSelection()) await navigator.clipboard.writeText(terminal.getSelection())
  }
  terminal.attachCustomKeyEventHandler((event) => {
    if (!event.ctrlKey || !event.shiftKey || event.altKey || event.metaKey) return true
    // The browser pastes by itself.
    if (event.code === 'KeyV') return false
    if (event.code !== 'KeyC' && event.code !== 'KeyL') return true
    event.preventDefault()
    if (event.type === 'keydown') void (event.code === 'KeyC' ? copy() : events.left())
    return false
  })
  terminal.onData((text) => events.typed(text))
  terminal.onResize(() => events.resized(size()))
  terminal.onSelectionChange(() => events.selected(terminal.hasSelection()))
  let late: ReturnType<typeof setTimeout> | undefined
  const observer = new ResizeObserver(() => {
    clearTimeout(late)
    late = setTimeout(() => fit.fit(), RESIZE_AFTER_MS)
  })
  observer.observe(element)
  fit.fit()
  const stopColours = onTheme(() => (terminal.options.theme = terminalColours()))
  return {
    get size() {
      return size()
    },
    show: (bytes, shown) => terminal.write(bytes, shown),
    begin(tty) {
      terminal.reset()
      terminal.options.convertEol = !tty
      terminal.options.disableStdin = false
    },
    end: () => void (terminal.options.disableStdin = true),
    focus: () => terminal.focus(),
    copy,
    dispose() {
      clearTimeout(late)
      observer.disconnect()
      stopColours()
      terminal.dispose()
      styles.dispose()
    },
  }
}
