import type { ComponentChildren } from 'preact'
import type { SessionPreview } from '../../wire/session-facts.ts'
import { Badge } from '../parts/badge.tsx'
import { Exact, Name } from '../parts/exact.tsx'
import { bytes } from '../parts/time.tsx'
import { Lines } from './sandbox.tsx'

/** More of a kind are counted, not listed: the Policies view has them all. */
const LINES_SHOWN_MAX = 200

const TRUST: Readonly<Record<SessionPreview['trust'], string>> = {
  none: 'it brings no policy of its own',
  trusted: 'it brings a policy of its own, which you accepted as it is',
  restricted: 'it brings a policy of its own, which is not accepted: it may only deny and ask (sallyport trust)',
}

/** What a session would be able to do, in words. */
export function PreviewView({ preview }: { preview: SessionPreview }) {
  const { rules, warnings, mode } = preview
  const harness = [...rules.allow, ...rules.ask].filter(({ isOfHarness }) => isOfHarness)
  const ownOf = (action: keyof typeof rules) => rules[action].filter(({ isOfHarness }) => !isOfHarness || action === 'deny')
  return (
    <section class="card stack session-preview" aria-label="Preview">
      <h2>What it would be</h2>
      {warnings.length > 0 && (
        <div class="note note-warn">
          <p>Warnings</p>
          <Lines lines={warnings} />
        </div>
      )}
      <Facts preview={preview} />
      <List
        title="May reach"
        none={mode === 'open' ? 'everything that nothing denies' : 'nothing: no rule allows a host'}
        items={ownOf('allow')}
      />
      <List title="Asked about first" items={ownOf('ask')} />
      <List title="Denied" items={ownOf('deny')} />
      {harness.length > 0 && (
        <details>
          <summary>{harness.length} rules for what the harness itself needs</summary>
          <RuleLines items={harness} />
        </details>
      )}
      {mode !== 'open' && <p class="small quiet">Whatever no rule names is denied.</p>}
      <Used preview={preview} />
      <OfMachine preview={preview} />
    </section>
  )
}

/** What it works with in the network, by name. */
function Used({ preview: { credentials, routes, servers } }: { preview: SessionPreview }) {
  return (
    <>
      <Part title="Credentials that the gate writes" count={credentials.length} none="none: its requests carry no secret">
        {credentials.slice(0, LINES_SHOWN_MAX).map(({ id, secret, text, from }) => (
          <li key={id}>
            <Name text={id} /> · secret <Name text={secret} /> · <Exact text={text} /> <From place={from} />
          </li>
        ))}
      </Part>
      <Part title="Routes" count={routes.length}>
        {routes.slice(0, LINES_SHOWN_MAX).map(({ name, upstream, from }) => (
          <li key={name}>
            <Name text={name} /> to <Name text={upstream} /> <From place={from} />
          </li>
        ))}
      </Part>
      <Part title="MCP servers" count={servers.length}>
        {servers.slice(0, LINES_SHOWN_MAX).map(({ name, text }) => (
          <li key={name}>
            <Name text={name} />: <Exact text={text} />
          </li>
        ))}
      </Part>
    </>
  )
}

/** What it has of this machine. */
function OfMachine({ preview }: { preview: SessionPreview }) {
  const { commands, mounts, hidden, hiddenMore, git, gitMore } = preview
  return (
    <>
      <Part title={`Commands on this machine: ${COMMANDS[commands.mode] ?? commands.mode}`} count={commands.rules.length}>
        {commands.rules.slice(0, LINES_SHOWN_MAX).map(({ list, pattern, from }, index) => (
          <li key={index}>
            {list} <Name text={pattern} /> <From place={from} />
          </li>
        ))}
      </Part>
      <Part title="Mounted from this machine" count={mounts.length} none="nothing: an empty workspace in memory">
        {mounts.map(({ source, target, readOnly }) => (
          <li key={target}>
            <Name text={source} /> at <Name text={target} />, {readOnly ? 'read-only' : 'read and write'}
          </li>
        ))}
      </Part>
      <Part title="Hidden from it" count={hidden.length}>
        <Paths paths={hidden} more={hiddenMore} />
      </Part>
      <Part title="Of git, kept from being changed" count={git.length}>
        <Paths paths={git} more={gitMore} />
      </Part>
    </>
  )
}

const COMMANDS: Readonly<Record<string, string>> = {
  'always-prompt': 'asked about each time',
  allowlist: 'those on the list, others are asked about',
  blocklist: 'all but those on the list',
  disabled: 'none',
}

function Facts({ preview }: { preview: SessionPreview }) {
  const { name, workspace, harness, image, command, limits, mode, layers, trust, filesystem, variables } = preview
  return (
    <dl class="facts">
      <dt>Name</dt>
      <dd>
        <Name text={name} />
      </dd>
      <dt>Workspace</dt>
      <dd>
        <Name text={workspace} />, {WORKSPACES[filesystem.workspace] ?? filesystem.workspace}
      </dd>
      <dt>Its own policy</dt>
      <dd>
        <Badge tone={trust === 'restricted' ? 'warn' : trust === 'trusted' ? 'ok' : 'quiet'}>{trust}</Badge> {TRUST[trust]}
      </dd>
      <dt>Harness</dt>
      <dd>{harness === null ? 'none' : <Name text={harness} />}</dd>
      <dt>Image</dt>
      <dd>
        <Exact text={image.name} />
        {image.state === 'fetched' && ' (fetched when it starts)'}
      </dd>
      <dt>Command</dt>
      <dd class="mono">{command.length === 0 ? 'waits for exec' : <Exact text={command.join('\n')} />}</dd>
      <dt>Limits</dt>
      <dd>
        {bytes(limits.memoryBytes)} of memory, {limits.cpus} {limits.cpus === 1 ? 'processor' : 'processors'}, {limits.pids} processes, as
        user {limits.user}
      </dd>
      <dt>Network</dt>
      <dd>{mode}</dd>
      {variables.length > 0 && (
        <>
          <dt>Variables</dt>
          <dd>
            <Exact text={variables.join(', ')} />
          </dd>
        </>
      )}
      <dt>Policy of</dt>
      <dd>
        {layers.length === 0 ? 'no file: everything is denied' : <Lines lines={layers.map(({ layer, file }) => `${layer}: ${file}`)} />}
      </dd>
    </dl>
  )
}

const WORKSPACES: Readonly<Record<string, string>> = { rw: 'read and write', ro: 'read-only', none: 'not given to it' }

type Line = SessionPreview['rules']['allow'][number]

function List({ title, none, items }: { title: string; none?: string; items: readonly Line[] }) {
  if (items.length === 0 && none === undefined) return null
  return (
    <section class="session-part">
      <h3>{title}</h3>
      {items.length === 0 ? <p class="quiet">{none}</p> : <RuleLines items={items} />}
    </section>
  )
}

function RuleLines({ items }: { items: readonly Line[] }) {
  return (
    <>
      <ul class="session-lines">
        {items.slice(0, LINES_SHOWN_MAX).map(({ id, text, from }) => (
          <li key={id}>
            <Exact text={text} /> <From place={from} />
          </li>
        ))}
      </ul>
      <More count={items.length - LINES_SHOWN_MAX} />
    </>
  )
}

function Part({ title, count, none, children }: { title: string; count: number; none?: string; children: ComponentChildren }) {
  if (count === 0 && none === undefined && !title.includes(':')) return null
  return (
    <section class="session-part">
      <h3>{title}</h3>
      {count > 0 ? <ul class="session-lines">{children}</ul> : none !== undefined && <p class="quiet">{none}</p>}
      <More count={count - LINES_SHOWN_MAX} />
    </section>
  )
}

function Paths({ paths, more }: { paths: readonly string[]; more: number }) {
  return (
    <>
      {paths.map((path) => (
        <li key={path}>
          <Name text={path} />
        </li>
      ))}
      {more > 0 && <li class="quiet">and {more} more</li>}
    </>
  )
}

function More({ count }: { count: number }) {
  return count > 0 ? <p class="small quiet">and {count} more</p> : null
}

function From({ place }: { place: string }) {
  return (
    <span class="small quiet">
      (<Name text={place} />)
    </span>
  )
}
