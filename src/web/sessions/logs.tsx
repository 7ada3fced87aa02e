import type { RefObject } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { SessionView } from '../../wire/operator.ts'
import { Problem, send } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { Field } from '../parts/field.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { saveFile } from '../parts/save-file.ts'
import { VirtualList } from '../parts/virtual-list.tsx'
import { createLogLines, createRows, LOG_LINES_MAX, type LogLine, type LogRow } from './log-lines.ts'
import './logs.css'

const ROW_PIXELS = 20
/** How often what came is drawn, however fast it comes. */
const DRAW_EACH_MS = 150
const DOWNLOAD_LINES_MAX = 1_000_000
const NEAR_END_PIXELS = 4 * ROW_PIXELS

type Read = {
  readonly lines: readonly LogLine[]
  readonly left: number
  readonly isFollowed: boolean
  readonly problem?: Problem
}
const NOTHING: Read = { lines: [], left: 0, isFollowed: true }

/** What a session's program printed, redacted, as text alone; it is followed for as long as it is shown. */
export function Logs({ session }: { session: SessionView }) {
  const [round, setRound] = useState(0)
  const { lines, left, isFollowed, problem } = useLog(session.id, round)
  const [wanted, setWanted] = useState('')
  const [isWrapped, setWrapped] = useState(true)
  const [isAtEnd, setAtEnd] = useState(true)
  const place = useRef<HTMLDivElement>(null)
  const columns = useColumns(place)
  const found = useMemo(() => {
    const word = wanted.toLowerCase()
    return word === '' ? lines : lines.filter(({ text }) => text.toLowerCase().includes(word))
  }, [lines, wanted])
  const broken = useMemo(() => createRows(isWrapped ? columns : undefined), [isWrapped, columns])
  const rows = useMemo(() => broken(found), [broken, found])
  useLayoutEffect(() => {
    const list = place.current?.querySelector('.virtual')
    if (isAtEnd && list) list.scrollTop = list.scrollHeight
  }, [rows, isAtEnd])

  const look = (): void => {
    const list = place.current?.querySelector('.virtual')
    if (list) setAtEnd(list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_END_PIXELS)
  }

  return (
    <section class="logs stack" aria-label="Logs">
      <div class="logs-bar row">
        <div class="logs-search">
          <Field
            label="Only lines with"
            control={(attributes) => (
              <input {...attributes} class="input" type="search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
            )}
          />
        </div>
        <label class="row">
          <input type="checkbox" checked={isWrapped} onChange={(event) => setWrapped(event.currentTarget.checked)} />
          Wrap long lines
        </label>
        <label class="row">
          <input type="checkbox" checked={isAtEnd} onChange={(event) => setAtEnd(event.currentTarget.checked)} />
          Stay at the end
        </label>
        <Button onPress={() => download(session)}>Download</Button>
        {!isFollowed && <Button onPress={() => setRound((before) => before + 1)}>Read again</Button>}
      </div>
      {problem !== undefined && <ProblemNote problem={problem} />}
      <p class="quiet small">
        {wanted === '' ? `${lines.length} lines` : `${found.length} of ${lines.length} lines`}
        {left > 0 && `, ${left} older ones are not shown (at most ${LOG_LINES_MAX} are kept here; the download has more)`}
        <span role="status">{isFollowed ? ', followed' : ', not followed: the program has ended'}</span>
      </p>
      <div ref={place} class="logs-place" onScrollCapture={look}>
        <span class="logs-measure mono" aria-hidden="true">
          0000000000
        </span>
        <VirtualList
          items={rows}
          rowPixels={ROW_PIXELS}
          keyOf={({ key }) => key}
          label="lines of the log"
          class="logs-list mono"
          row={(row) => <Row row={row} wanted={wanted} />}
        />
      </div>
    </section>
  )
}

function Row({ row: { number, text }, wanted }: { row: LogRow; wanted: string }) {
  return (
    <>
      <span class="logs-number">{number}</span>
      <bdi class="logs-text">{marked(text, wanted)}</bdi>
    </>
  )
}

function marked(text: string, wanted: string) {
  const at = wanted === '' ? -1 : text.toLowerCase().indexOf(wanted.toLowerCase())
  if (at < 0) return text
  return (
    <>
      {text.slice(0, at)}
      <mark>{text.slice(at, at + wanted.length)}</mark>
      {text.slice(at + wanted.length)}
    </>
  )
}

function useLog(session: string, round: number): Read {
  const [read, setRead] = useState(NOTHING)
  useEffect(() => {
    const stop = new AbortController()
    const log = createLogLines()
    setRead(NOTHING)
    const draw = (more: Pick<Read, 'isFollowed' | 'problem'>): void => setRead({ lines: log.lines(), left: log.left, ...more })
    let isNew = false
    const timer = setInterval(() => {
      if (isNew) draw({ isFollowed: true })
      isNew = false
    }, DRAW_EACH_MS)
    void (async () => {
      try {
        const { body } = await send('GET', `${pathOf(session)}?follow=true&terminal=true&tail=${LOG_LINES_MAX}`, undefined, stop.signal)
        const reader = body?.pipeThrough(new TextDecoderStream()).getReader()
        for (let next = await reader?.read(); next?.done === false; next = await reader?.read()) {
          log.push(next.value)
          isNew = true
        }
        if (!stop.signal.aborted) draw({ isFollowed: false })
      } catch (error) {
        if (stop.signal.aborted) return
        const problem = error instanceof Problem ? error : new Problem(0, 'stream_lost', 'the log broke off', 'read it again')
        draw({ isFollowed: false, problem })
      } finally {
        clearInterval(timer)
      }
    })()
    return () => {
      clearInterval(timer)
      stop.abort()
    }
  }, [session, round])
  return read
}

/** How many characters fit beside the numbers. */
function useColumns(place: RefObject<HTMLDivElement | null>): number {
  const [columns, setColumns] = useState(80)
  useLayoutEffect(() => {
    const element = place.current
    if (element === null) return undefined
    const measure = (): void => {
      const ten = element.querySelector('.logs-measure')?.getBoundingClientRect().width ?? 0
      const number = Number.parseFloat(getComputedStyle(element).getPropertyValue('--logs-number'))
      if (ten > 0) setColumns(Math.max(20, Math.floor((element.clientWidth * 10) / ten) - number - 4))
    }
    const observer = new ResizeObserver(measure)
    observer.observe(element)
    return () => observer.disconnect()
  }, [place])
  return columns
}

/** As it is shown, to its beginning as far as the engine keeps it. */
async function download({ id, name }: SessionView): Promise<void> {
  const answer = await send('GET', `${pathOf(id)}?terminal=true&tail=${DOWNLOAD_LINES_MAX}`)
  saveFile(`${name.replace(/[^\w.-]/g, '_')}.log`, new Blob([await answer.blob()], { type: 'text/plain' }))
}

function pathOf(session: string): string {
  return `/v1/sessions/${encodeURIComponent(session)}/logs`
}
