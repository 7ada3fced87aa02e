import type { FunctionComponent } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { SessionView } from '../../wire/operator.ts'
import type { SessionDetailView } from '../../wire/session-facts.ts'
import { Badge } from '../parts/badge.tsx'
import { Exact, Name } from '../parts/exact.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { Tabs, type Tab as TabLink } from '../parts/tabs.tsx'
import { Ago } from '../parts/time.tsx'
import { useResource } from '../parts/use-resource.ts'
import { ViewHead } from '../parts/view-head.tsx'
import { go, hrefOf } from '../shell/route.ts'
import { ResetButton, RevokeButton, StopButton } from './actions.tsx'
import { SessionFigures } from './figures.tsx'
import { Lines, SandboxBadge, SandboxFlags } from './sandbox.tsx'
import { Selftest } from './selftest.tsx'
import { sessionList } from './session-list.ts'
import { isUp, stateOf } from './session-state.ts'

type Tab = FunctionComponent<{ session: SessionView }>
/** What is heavy, by the name of its tab. */
const TABS: Readonly<Record<string, { readonly label: string; readonly load: () => Promise<Tab> }>> = {
  terminal: { label: 'Terminal', load: async () => (await import('./terminal.tsx')).Terminal },
  logs: { label: 'Logs', load: async () => (await import('./logs.tsx')).Logs },
}

/** One session: all that is known of it, and what can be done with it. */
export function SessionDetail({ id, tab }: { id: string; tab: string }) {
  const { value, problem, reload } = useResource<SessionDetailView>(`/v1/sessions/${encodeURIComponent(id)}`)
  const heard = sessionList.value?.find((one) => one.id === id)
  // What is heard of it is newer; the rest is read again when it changes.
  useEffect(reload, [reload, heard?.state, heard?.agent.container, heard?.isRevoked, heard?.alerts.length])
  if (value === undefined) {
    return (
      <>
        <AllSessions />
        <ViewHead title="Session" />
        {problem === undefined ? <p class="quiet">…</p> : <ProblemNote problem={problem} />}
      </>
    )
  }
  const detail: SessionDetailView = heard === undefined ? value : { ...value, ...heard }
  return (
    <>
      <AllSessions />
      <Head session={detail} reload={reload} />
      <Tabs label="Of this session" tabs={tabsOf(detail, tab)} />
      {Object.hasOwn(TABS, tab) && detail.project === undefined ? <Loaded name={tab} session={detail} /> : <Overview session={detail} />}
    </>
  )
}

function AllSessions() {
  return (
    <p class="small">
      <a href={hrefOf('sessions')}>All sessions</a>
    </p>
  )
}

/** Those of the engine's containers are loaded when they are first looked at; what is in another view is a link there. */
function tabsOf({ id, project }: SessionDetailView, shown: string): TabLink[] {
  const own = project === undefined ? Object.entries(TABS) : []
  return [
    { label: 'Overview', href: hrefOf('sessions', [id]), isShown: !own.some(([name]) => name === shown) },
    ...own.map(([name, { label }]) => ({ label, href: hrefOf('sessions', [id, name]), isShown: name === shown })),
    { label: 'Activity', href: hrefOf('activity', [], { session: id }), isShown: false },
    { label: 'Audit', href: hrefOf('audit', [], { session: id }), isShown: false },
  ]
}

function Head({ session, reload }: { session: SessionDetailView; reload: () => void }) {
  const { id, name, workspace, project, state, isRevoked } = session
  const { text, tone } = stateOf(session)
  return (
    <header class="view-head">
      <div>
        <h1 tabIndex={-1}>
          <Name text={name} />
        </h1>
        <p class="row">
          <Badge tone={tone}>{text}</Badge>
          <span class="quiet">
            <Name text={workspace} />
          </span>
        </p>
      </div>
      <div class="row">
        {state === 'running' && project === undefined && <ResetButton session={session} onDone={reload} />}
        {state === 'running' && !isRevoked && <RevokeButton of={id} name={name} onDone={reload} />}
        <StopButton session={session} onDone={() => go('sessions')} />
      </div>
    </header>
  )
}

/** A part that is loaded when it is first looked at. */
function Loaded({ name, session }: { name: string; session: SessionView }) {
  const [Shown, setShown] = useState<Tab | undefined>()
  useEffect(() => {
    let isOver = false
    void TABS[name]?.load().then((loaded) => !isOver && setShown(() => loaded))
    return () => void (isOver = true)
  }, [name])
  return Shown === undefined ? <p class="quiet">…</p> : <Shown session={session} />
}

function Overview({ session }: { session: SessionDetailView }) {
  const { id, project, warnings, alerts, state } = session
  return (
    <div class="stack">
      {alerts.length > 0 && (
        <div class="note note-bad">
          <p>This came to be wrong while it ran:</p>
          <Lines lines={alerts} />
        </div>
      )}
      {warnings.length > 0 && (
        <div class="note note-warn">
          <p>Warnings from its start</p>
          <Lines lines={warnings} />
        </div>
      )}
      {project !== undefined && (
        <p class="note">
          The containers of this session are docker compose’s (project <Name text={project} />
          ): what holds them, their figures, terminal, logs and reset are there, as in{' '}
          <code>
            docker compose -p <Name text={project} /> logs
          </code>
          . Here it can be stopped, and its lease revoked.
        </p>
      )}
      {state === 'running' && <SessionFigures session={id} />}
      <div class="session-panes">
        <section class="card stack" aria-label="Facts">
          <h2>Facts</h2>
          <Facts session={session} />
        </section>
        {project === undefined && state === 'running' && (
          <section class="card stack" aria-label="Sandbox">
            <h2 class="row">
              Sandbox <SandboxBadge session={session} />
            </h2>
            <SandboxFlags session={session} />
          </section>
        )}
      </div>
      {project === undefined && state === 'running' && <Selftest session={id} />}
    </div>
  )
}

function Facts({ session }: { session: SessionDetailView }) {
  const { id, harness, role, image, createdAt, agent, sidecar, network, jail, user, filesystem, control, step, state, asked, isRevoked } =
    session
  const command = [...(asked.agent?.Entrypoint ?? []), ...(asked.agent?.Cmd ?? [])]
  const facts: readonly (readonly [string, string | undefined])[] = [
    ['Id', id],
    ['Harness', harness ?? 'none'],
    ['Role', role],
    ['Image', image],
    ['Command', command.length === 0 ? undefined : command.join(' ')],
    ['Step', isUp(session) && state === 'running' ? undefined : step],
    [
      'Agent',
      agent.container === undefined
        ? undefined
        : `${agent.container.slice(0, 12)}, ${agent.running ? 'runs' : `ended with ${agent.exitCode ?? '?'}`}`,
    ],
    ['Gate', `${sidecar.container?.slice(0, 12) ?? ''} ${sidecar.healthy ? 'ready' : 'away'}`.trim()],
    ['Network', network],
    ['Subnet', jail === undefined ? undefined : `${jail.subnet}, gate at ${jail.sidecar}`],
    ['User', user],
    ['Workspace', WORKSPACES[filesystem.workspace] ?? filesystem.workspace],
    ['Hidden', filesystem.hide.length === 0 ? undefined : filesystem.hide.join(', ')],
    ['Settings of git', filesystem.git_metadata],
    ['Control channel', control === 'unix' ? 'a socket that the gate mounts' : 'the engine’s streams'],
    ['Lease', isRevoked ? 'revoked' : isUp(session) ? 'live' : 'ended'],
  ]
  return (
    <dl class="facts">
      <dt>Started</dt>
      <dd>
        <Ago at={createdAt} />
      </dd>
      {facts.map(
        ([name, text]) =>
          text !== undefined && (
            <>
              <dt>{name}</dt>
              <dd>
                <Exact text={text} />
              </dd>
            </>
          ),
      )}
    </dl>
  )
}

const WORKSPACES: Readonly<Record<string, string>> = { rw: 'read and write', ro: 'read-only', none: 'not given to it' }
