import { signal } from '@preact/signals'
import { Problem } from '../api/client.ts'
import { Exact } from './exact.tsx'
import { ProblemNote } from './problem-note.tsx'

type Notice = { readonly key: number; readonly text: string; readonly tone: 'ok' | 'bad' }

const SHOWN_MS = 6_000
const SHOWN_MAX = 4
const notices = signal<readonly Notice[]>([])
let count = 0

/** Says something in passing. What failed stays until it is taken away. */
export function notify(text: string, tone: Notice['tone'] = 'ok'): void {
  count += 1
  const key = count
  notices.value = [...notices.value, { key, text, tone }].slice(-SHOWN_MAX)
  if (tone === 'ok') setTimeout(() => dismiss(key), SHOWN_MS)
}

/** Of a failure that no place of its own shows. One that was called off is none. */
export function notifyFailure(error: unknown): void {
  if (error instanceof DOMException && error.name === 'AbortError') return
  notify(error instanceof Problem ? ProblemNote.textOf(error) : String(error), 'bad')
}

function dismiss(key: number): void {
  notices.value = notices.value.filter((one) => one.key !== key)
}

export function Notices() {
  return (
    <div class="notices" role="status" aria-live="polite">
      {notices.value.map(({ key, text, tone }) => (
        <div key={key} class={`note note-${tone}`}>
          <span class="grow">
            <Exact text={text} />
          </span>
          <button type="button" class="button button-plain" aria-label="Take this notice away" onClick={() => dismiss(key)}>
            ×
          </button>
        </div>
      ))}
    </div>
  )
}
