import type { ComponentChildren } from 'preact'
import type { FileServer, ServersFile, ServersView, ServerView } from '../../wire/servers.ts'
import { Badge } from '../parts/badge.tsx'
import { Button } from '../parts/button.tsx'
import { Empty } from '../parts/empty.tsx'
import { Exact, Name, nameOf } from '../parts/exact.tsx'
import { hrefOf } from '../shell/route.ts'
import { FileProblems } from './file-problems.tsx'
import { referencesIn } from './references.ts'
import { SecretChip, stateOf } from './secret-chip.tsx'
import type { OpenDialog } from './asked.ts'

type Row = Pick<ServerView, 'name' | 'what' | 'tools' | 'secrets'> & { readonly how?: ServerView['how']; readonly place?: string }

/** By who says so: mcp.json, policies, the harness's own configuration; and what of that is left out. */
export function ServerLists(props: { view: ServersView; file: ServersFile; onOpen: (dialog: OpenDialog) => void }) {
  const { view, file, onOpen } = props
  const own = file.servers.map(({ name, server, line }) => rowOf(name, server, line, view, file))
  const of = (source: ServerView['source']): Row[] =>
    view.servers.filter((one) => one.source === source).map((one) => ({ ...one, place: placeOf(one) }))
  const policies = of('policy')
  const harness = of('harness')
  return (
    <>
      <WhyNone problems={view.problems} />
      <Group title="Every session" about={<Name text={file.path} />}>
        <FileProblems problems={file.problems} />
        {own.length === 0 ? (
          <Empty title="No server of your own yet">
            <p>Add one, and every session has it: with a secret it runs in a container of its own, beside the agent.</p>
            <Button onPress={() => onOpen({ kind: 'form' })}>Add the first server</Button>
          </Empty>
        ) : (
          <Rows
            rows={own}
            buttons={(row) => (
              <>
                <Button aria-label={`Edit ${nameOf(row.name)}`} onPress={() => onOpen({ kind: 'form', name: row.name })}>
                  Edit
                </Button>
                {row.how !== 'direct' && <TestButton row={row} onOpen={onOpen} />}
                <Button kind="bad" aria-label={`Remove ${nameOf(row.name)}`} onPress={() => onOpen({ kind: 'remove', name: row.name })}>
                  Remove
                </Button>
              </>
            )}
          />
        )}
      </Group>
      {policies.length > 0 && (
        <Group
          title="Of policies"
          about={
            <>
              Changed where they stand: <a href={hrefOf('policies')}>Policies</a>
            </>
          }
        >
          <Rows rows={policies} buttons={(row) => row.how !== 'direct' && <TestButton row={row} onOpen={onOpen} />} />
        </Group>
      )}
      {(harness.length > 0 || view.leftOut.length > 0) && (
        <Group
          title={`Of your own configuration of ${view.harness ?? 'the harness'}`}
          about="Read when a session starts, and never written."
        >
          <Rows rows={harness} buttons={(row) => row.how !== 'direct' && <TestButton row={row} onOpen={onOpen} />} />
          {view.leftOut.map(({ name, why }) => (
            <p key={name} class="servers-left-out">
              <Badge tone="warn">left out</Badge>{' '}
              <strong>
                <Name text={name} />
              </strong>
              {': '}
              <Exact text={why} />
            </p>
          ))}
        </Group>
      )}
    </>
  )
}

function WhyNone({ problems }: { problems: readonly string[] }) {
  if (problems.length === 0) return null
  return (
    <div class="note note-bad" role="alert">
      <p>Such a session would not start:</p>
      <ul class="servers-lines">
        {problems.map((line) => (
          <li key={line}>
            <Exact text={line} />
          </li>
        ))}
      </ul>
    </div>
  )
}

function Group({ title, about, children }: { title: string; about: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="card stack">
      <div>
        <h2>{title}</h2>
        <p class="quiet small">{about}</p>
      </div>
      {children}
    </section>
  )
}

function TestButton({ row, onOpen }: { row: Row; onOpen: (dialog: OpenDialog) => void }) {
  return (
    <Button aria-label={`Test ${nameOf(row.name)}`} onPress={() => onOpen({ kind: 'test', name: row.name })}>
      Test
    </Button>
  )
}

function Rows({ rows, buttons }: { rows: readonly Row[]; buttons: (row: Row) => ComponentChildren }) {
  return (
    <ul class="servers-list">
      {rows.map((row) => (
        <li key={row.name}>
          <div class="servers-what">
            <h3>
              <Name text={row.name} />
            </h3>
            {row.how !== undefined && <Badge tone={row.how === 'direct' ? 'quiet' : 'ok'}>{howOf(row)}</Badge>}
            <code class="servers-command">
              <Exact text={row.what.join(' ')} />
            </code>
            <p class="servers-more">
              {row.secrets.map(({ key, state, source }) => (
                <SecretChip key={key} name={key} state={state} source={source} />
              ))}
              <span class="quiet small">
                {row.tools === undefined ? (
                  'all its tools'
                ) : (
                  <>
                    tools <Exact text={row.tools.join(' ')} />
                  </>
                )}
              </span>
              {row.place !== undefined && (
                <span class="quiet small">
                  <Exact text={row.place} />
                </span>
              )}
            </p>
          </div>
          <div class="row">{buttons(row)}</div>
        </li>
      ))}
    </ul>
  )
}

function howOf({ how, what, secrets }: Row): string {
  if (how === 'tool') return 'in a container of its own'
  if (how === 'route') return secrets.length > 0 ? 'by the gate, which writes headers' : 'by the gate'
  return /^https?:/.test(what[0] ?? '') ? 'called by the agent' : 'in the agent'
}

function placeOf({ file, line }: ServerView): string {
  return line === 0 ? file : `${file}:${line}`
}

/** What the file says, also where no session would start with it. */
function rowOf(name: string, server: FileServer, line: number, view: ServersView, file: ServersFile): Row {
  const seen = view.servers.find((one) => one.name === name && one.source === 'home')
  const keys = [...new Set(Object.values('url' in server ? server.headers : server.env).flatMap(referencesIn))]
  return {
    name,
    what: 'url' in server ? [server.url] : server.command,
    ...(server.tools !== undefined && { tools: server.tools }),
    secrets: seen?.secrets ?? keys.map((key) => ({ key, state: stateOf(key, file), source: '' })),
    ...(seen !== undefined && { how: seen.how }),
    place: `line ${line}`,
  }
}
