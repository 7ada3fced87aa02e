import { useEffect, useRef, useState } from 'preact/hooks'
import type { DoctorLine, DoctorRow } from '../../wire/first-run.ts'
import { Problem, send } from '../api/client.ts'
import { jsonLinesOf } from '../api/events.ts'
import { Badge, type Tone } from '../parts/badge.tsx'
import { Button } from '../parts/button.tsx'
import { Exact } from '../parts/exact.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'

const WORDS: Readonly<Record<DoctorRow['state'], { readonly text: string; readonly tone: Tone }>> = {
  failure: { text: 'failure', tone: 'bad' },
  warning: { text: 'warning', tone: 'warn' },
  ok: { text: 'ok', tone: 'ok' },
}
/** What needs somebody comes first. */
const ORDER: readonly DoctorRow['state'][] = ['failure', 'warning', 'ok']

type Look = { readonly rows: readonly DoctorRow[]; readonly state: 'not yet' | 'looking' | 'done'; readonly problem?: Problem }

/** What this machine can hold, as the daemon's doctor finds it. Containers are made for it, so it looks when it is asked to. */
export function Doctor() {
  const [look, setLook] = useState<Look>({ rows: [], state: 'not yet' })
  const stop = useRef<AbortController>(undefined)
  useEffect(() => () => stop.current?.abort(), [])

  const examine = async (): Promise<void> => {
    const own = (stop.current = new AbortController())
    let rows: readonly DoctorRow[] = []
    setLook({ rows, state: 'looking' })
    try {
      const { body } = await send('GET', '/v1/doctor', undefined, own.signal)
      if (body === null) return
      let isWhole = false
      for await (const line of jsonLinesOf(body)) {
        const said = line as DoctorLine | { readonly problem: { readonly code: string; readonly detail: string; readonly hint?: string } }
        if ('problem' in said) throw new Problem(0, said.problem.code, said.problem.detail, said.problem.hint)
        if ('row' in said) setLook({ rows: (rows = [...rows, said.row]), state: 'looking' })
        else isWhole = true
      }
      if (!isWhole) throw new Problem(0, 'stream_lost', 'the daemon did not look at everything', 'look again')
      setLook({ rows, state: 'done' })
    } catch (error) {
      if (own.signal.aborted) return
      if (!(error instanceof Problem)) throw error
      setLook({ rows, state: 'done', problem: error })
    }
  }

  const { rows, state, problem } = look
  return (
    <div class="stack">
      <div class="row">
        <Button kind={state === 'not yet' ? 'main' : 'plain'} onPress={examine}>
          {state === 'not yet' ? 'Look at this machine' : 'Look again'}
        </Button>
        <p role="status">{wordsOf(look)}</p>
      </div>
      {problem !== undefined && <ProblemNote problem={problem} />}
      {rows.length > 0 && (
        <ul class="start-rows">
          {rows
            .toSorted((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state))
            .map((row) => (
              <Found key={row.id} row={row} />
            ))}
        </ul>
      )}
    </div>
  )
}

function Found({ row: { what, state, found, todo } }: { row: DoctorRow }) {
  return (
    <li class="start-row">
      <Badge tone={WORDS[state].tone}>{WORDS[state].text}</Badge>
      <span class="start-what">{what}</span>
      <span class="start-found">
        <Exact text={found} />
        {todo !== undefined && (
          <span class="start-todo">
            → <Exact text={todo} />
          </span>
        )}
      </span>
    </li>
  )
}

function wordsOf({ rows, state }: Look): string {
  const count = (wanted: DoctorRow['state']): number => rows.filter((row) => row.state === wanted).length
  switch (state) {
    case 'not yet':
      return 'It starts containers of its own and removes them; it takes some seconds.'
    case 'looking':
      return `looking … ${rows.length} found so far`
    case 'done': {
      const failures = count('failure')
      const said = `${count('ok')} ok, ${count('warning')} warnings, ${failures} failures`
      return failures > 0 ? `${said}: mend the failures first` : `${said}: this machine is ready`
    }
  }
}
