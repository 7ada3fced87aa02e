import type { RefObject } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import type { SessionView } from '../../wire/operator.ts'
import type { TerminalWish } from '../../wire/terminal.ts'
import { Problem } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { openTerminalLink, type TerminalEnd, type TerminalLink } from './terminal-link.ts'
import type { TerminalScreen } from './terminal-screen.ts'
import './terminal.css'

/** bash where the image has it: the shell that every image of an agent has looks for it. */
const SHELL = ['/bin/sh', '-c', 'if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh']

type Kind = TerminalWish['kind']
type State =
  | { readonly at: 'idle' }
  | { readonly at: 'opening' | 'open'; readonly kind: Kind; readonly tty: boolean }
  | { readonly at: 'over'; readonly kind: Kind; readonly end: TerminalEnd }

type Connected = {
  readonly state: State
  readonly isSelected: boolean
  readonly connect: (kind: Kind) => Promise<void>
  readonly detach: () => void
  readonly copy: () => Promise<void> | undefined
}

/** A terminal of a session: its agent, or a shell beside it, redacted and filtered as the commands show it. */
export function Terminal({ session }: { session: SessionView }) {
  const place = useRef<HTMLDivElement>(null)
  const bar = useRef<HTMLDivElement>(null)
  const hint = useId()
  const { state, isSelected, connect, detach, copy } = useTerminal(session.id, place, hint, () =>
    bar.current?.querySelector<HTMLElement>('button:not(:disabled)')?.focus(),
  )
  const isBusy = state.at === 'opening' || state.at === 'open'
  return (
    <section class="terminal stack" aria-label="Terminal">
      <div ref={bar} class="terminal-bar row">
        {isBusy ? (
          <Button onPress={detach} disabled={state.at === 'opening'}>
            Detach
          </Button>
        ) : (
          <>
            <Button kind="main" onPress={() => connect('attach')} disabled={!session.agent.running}>
              {state.at === 'over' && state.kind === 'attach' ? 'Attach again' : 'Attach to the agent'}
            </Button>
            <Button onPress={() => connect('exec')} disabled={!session.agent.running}>
              {state.at === 'over' && state.kind === 'exec' ? 'Open another shell' : 'Open a shell'}
            </Button>
          </>
        )}
        <Button onPress={copy} disabled={!isSelected}>
          Copy
        </Button>
        <p class="terminal-state" role="status">
          {wordsOf(state, session)}
        </p>
      </div>
      {state.at === 'over' && state.end.kind === 'failed' && <ProblemNote problem={state.end.problem} />}
      <div ref={place} class="terminal-place" hidden={state.at === 'idle'} />
      <p id={hint} class="quiet small">
        <kbd>Ctrl</kbd>+<kbd>Shift</kbd>+<kbd>L</kbd> leaves the terminal: every other key is the program’s. <kbd>Ctrl</kbd>+
        <kbd>Shift</kbd>+<kbd>C</kbd> copies what is selected, <kbd>Ctrl</kbd>+<kbd>Shift</kbd>+<kbd>V</kbd> pastes. What is in the frame is
        drawn by the program: Sallyport asks for nothing there, and never for a password.
      </p>
    </section>
  )
}

function useTerminal(session: string, place: RefObject<HTMLElement | null>, hint: string, left: () => void): Connected {
  const screen = useRef<TerminalScreen>(undefined)
  const link = useRef<TerminalLink>(undefined)
  const [state, setState] = useState<State>({ at: 'idle' })
  const [isSelected, setSelected] = useState(false)
  useEffect(
    () => () => {
      link.current?.detach()
      screen.current?.dispose()
      screen.current = undefined
      setState({ at: 'idle' })
    },
    [session],
  )

  const openedScreen = async (): Promise<TerminalScreen | undefined> => {
    const { openScreen } = await import('./terminal-screen.ts')
    if (place.current === null) return undefined
    // What is not shown has no size.
    place.current.hidden = false
    screen.current ??= openScreen(place.current, hint, {
      typed: (text) => link.current?.type(text),
      resized: (size) => link.current?.resize(size),
      selected: setSelected,
      left,
    })
    return screen.current
  }

  const join = async (kind: Kind, shown: TerminalScreen): Promise<void> => {
    const wish = { size: shown.size, ...(kind === 'attach' ? { kind } : { kind, argv: SHELL }) }
    const opened = await openTerminalLink(session, wish, {
      begun: (tty) => shown.begin(tty),
      show: (bytes, done) => shown.show(bytes, done),
      ended(end) {
        shown.end()
        link.current = undefined
        setState({ at: 'over', kind, end })
      },
    })
    // The operator has gone elsewhere meanwhile.
    if (screen.current !== shown) return opened.detach()
    link.current = opened
    // It may have another size by now.
    opened.resize(shown.size)
    setState({ at: 'open', kind, tty: opened.tty })
    shown.focus()
  }

  const connect = async (kind: Kind): Promise<void> => {
    setState({ at: 'opening', kind, tty: true })
    try {
      const shown = await openedScreen()
      if (shown !== undefined) await join(kind, shown)
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      screen.current?.end()
      setState({ at: 'over', kind, end: { kind: 'failed', problem: error } })
    }
  }
  return { state, isSelected, connect, detach: () => link.current?.detach(), copy: () => screen.current?.copy() }
}

function wordsOf(state: State, session: SessionView): string {
  switch (state.at) {
    case 'idle':
      return session.agent.running ? '' : 'The agent does not run.'
    case 'opening':
      return 'connecting …'
    case 'open': {
      const what = state.kind === 'attach' ? 'attached to the agent' : 'a shell beside the agent'
      return state.tty ? what : `${what}; it has no terminal of its own: what it prints is shown line by line`
    }
    case 'over':
      if (state.end.kind === 'detached') return state.kind === 'attach' ? 'detached: the agent goes on' : 'detached'
      return state.end.kind === 'exit' ? `the program has ended with code ${state.end.code}` : 'not connected'
  }
}
