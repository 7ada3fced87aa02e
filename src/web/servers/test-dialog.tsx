import { useState } from 'preact/hooks'
import type { TestedServer } from '../../wire/control.ts'
import type { ServersFile } from '../../wire/servers.ts'
import { Problem, send } from '../api/client.ts'
import { jsonLinesOf } from '../api/events.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Empty } from '../parts/empty.tsx'
import { Exact, Name, nameOf } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { duration } from '../parts/time.tsx'
import { sessionList } from '../sessions/session-list.ts'
import { hrefOf } from '../shell/route.ts'
import { Allowlist } from './allowlist.tsx'

type Result = { readonly tested: TestedServer; readonly tookMs: number } | { readonly problem: Problem }

/** Tries a server as the agent of a running session would have it, and says which of its tools agents are to have. */
export function TestDialog(props: { file: ServersFile; name: string; onClose: () => void; onSaved: () => void }) {
  const { file, name, onClose, onSaved } = props
  const running = (sessionList.value ?? []).filter(({ state }) => state === 'running')
  const [picked, setPicked] = useState('')
  const [result, setResult] = useState<Result | undefined>()
  const session = running.find(({ id }) => id === picked) ?? running[0]
  const own = file.servers.find((one) => one.name === name)?.server
  const test = async (): Promise<void> => {
    if (session === undefined) return
    setResult(undefined)
    const began = performance.now()
    try {
      const tested = await testIn(session.id, name)
      setResult({ tested, tookMs: performance.now() - began })
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      setResult({ problem: error })
    }
  }
  return (
    <Dialog wide title="Test a server" onClose={onClose}>
      <p>
        <strong>
          <Name text={name} />
        </strong>{' '}
        is started as an agent’s connection would start it, asked for its tools, and ended.
      </p>
      {session === undefined ? (
        <Empty title="No session runs">
          <p>
            A server is tried in a session, with its rules and its secrets: <a href={hrefOf('sessions')}>start one</a>.
          </p>
        </Empty>
      ) : (
        <div class="row">
          <div class="grow">
            <Field
              label="In the session"
              control={(attributes) => (
                <select {...attributes} class="input" value={session.id} onChange={(event) => setPicked(event.currentTarget.value)}>
                  {running.map(({ id, name: called, workspace }) => (
                    <option key={id} value={id}>
                      {nameOf(`${called} · ${workspace}`)}
                    </option>
                  ))}
                </select>
              )}
            />
          </div>
          <Button kind="main" onPress={test}>
            Test it now
          </Button>
        </div>
      )}
      <Outcome result={result} />
      {result !== undefined && 'tested' in result && (
        <Allowlist key={file.digest} file={file} name={name} own={own} tools={result.tested.tools} onSaved={onSaved} />
      )}
      <div class="dialog-foot">
        <Button onPress={onClose}>Close</Button>
      </div>
    </Dialog>
  )
}

function Outcome({ result }: { result: Result | undefined }) {
  return (
    <div aria-live="polite">
      {result !== undefined && 'problem' in result && <ProblemNote problem={result.problem} />}
      {result !== undefined && 'tested' in result && (
        <p>
          <Exact text={result.tested.server === '' ? 'It does not say what it is' : result.tested.server} />: {result.tested.tools.length}{' '}
          {result.tested.tools.length === 1 ? 'tool' : 'tools'}, in {duration(result.tookMs)}.
        </p>
      )}
    </div>
  )
}

/** @throws Problem */
async function testIn(session: string, name: string): Promise<TestedServer> {
  const { body } = await send('POST', `/v1/sessions/${encodeURIComponent(session)}/mcp/${encodeURIComponent(name)}/test`, {})
  if (body !== null)
    for await (const line of jsonLinesOf(body)) {
      const { tested, problem } = line as {
        tested?: TestedServer
        problem?: { status: number; code: string; detail: string; hint?: string }
      }
      if (tested !== undefined) return tested
      if (problem !== undefined) throw new Problem(problem.status, problem.code, problem.detail, problem.hint)
    }
  throw new Problem(0, 'daemon_unavailable', 'the daemon did not answer with the tools of the server')
}
