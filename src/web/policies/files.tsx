import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { OwnPolicyView, PolicyFileView, PolicyListing } from '../../wire/policies.ts'
import { Badge } from '../parts/badge.tsx'
import { Name } from '../parts/exact.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { useResource } from '../parts/use-resource.ts'
import { hrefOf, route } from '../shell/route.ts'
import { FilePane, PresetPane } from './file-pane.tsx'
import { OwnPane } from './own-pane.tsx'

/** Every file that says what agents may do, by whose word it is. */
export function Files() {
  const { value, problem, reload } = useResource<PolicyListing>('/v1/policies')
  const wanted = route.value.query.get('file') ?? 'global'
  if (problem !== undefined) return <ProblemNote problem={problem} />
  if (value === undefined) return <p class="quiet">…</p>
  const file = [...value.files, ...newFiles(wanted, value)].find((one) => keyOf(one) === wanted)
  const own = value.own.find((one) => ownKey(one) === wanted)
  const preset = value.presets.find(({ name }) => `preset:${name}` === wanted)
  return (
    <div class="policies-panes">
      <Tree listing={value} wanted={wanted} />
      {file !== undefined && <FilePane key={wanted} file={file} onSaved={reload} />}
      {own !== undefined && <OwnPane key={wanted} own={own} onChanged={reload} />}
      {preset !== undefined && <PresetPane key={wanted} name={preset.name} />}
      {file === undefined && own === undefined && preset === undefined && <p class="card quiet">There is no such file (any more).</p>}
    </div>
  )
}

/** A role or a workspace that has no file yet. */
function newFiles(wanted: string, { files }: PolicyListing): readonly PolicyFileView[] {
  const [, kind, name = ''] = /^(role|workspace):(.+)$/s.exec(wanted) ?? []
  if (kind === undefined || files.some((one) => keyOf(one) === wanted)) return []
  const layer = kind === 'role' ? ({ kind, role: name } as const) : ({ kind: 'workspace', workspace: name } as const)
  return [{ layer, file: kind === 'role' ? `policies/roles/${name}.yaml` : name, sessions: [] }]
}

function keyOf({ layer }: PolicyFileView): string {
  if (layer.kind === 'role') return `role:${layer.role}`
  return layer.kind === 'workspace' ? `workspace:${layer.workspace}` : layer.kind
}

function ownKey({ workspace }: OwnPolicyView): string {
  return `own:${workspace}`
}

function Tree({ listing, wanted }: { listing: PolicyListing; wanted: string }) {
  const of = (kind: PolicyFileView['layer']['kind']): readonly PolicyFileView[] => listing.files.filter(({ layer }) => layer.kind === kind)
  return (
    <nav class="card policies-tree" aria-label="Policy files">
      <Group title="Every session">
        {of('global').map((one) => (
          <Leaf key="global" to="global" wanted={wanted} label="global" file={one} />
        ))}
      </Group>
      <Group title="Roles">
        {of('role').map((one) => (
          <Leaf key={keyOf(one)} to={keyOf(one)} wanted={wanted} label={one.layer.kind === 'role' ? one.layer.role : ''} file={one} />
        ))}
        <NewRole />
      </Group>
      <Group title="Workspaces (your policy for them)">
        {of('workspace').map((one) => (
          <Leaf
            key={keyOf(one)}
            to={keyOf(one)}
            wanted={wanted}
            label={one.layer.kind === 'workspace' ? one.layer.workspace : ''}
            file={one}
          />
        ))}
        {of('workspace').length === 0 && <li class="small quiet">none yet: sallyport init writes one</li>}
      </Group>
      {listing.own.length > 0 && (
        <Group title="What workspaces bring themselves">
          {listing.own.map((one) => (
            <li key={ownKey(one)}>
              <a href={hrefOf('policies', ['files'], { file: ownKey(one) })} aria-current={ownKey(one) === wanted ? 'true' : undefined}>
                <Name text={one.workspace} />
                <Badge tone={one.isTrusted ? 'ok' : 'warn'}>{one.isTrusted ? 'trusted' : 'may only deny or ask'}</Badge>
              </a>
            </li>
          ))}
        </Group>
      )}
      <Group title="Of the installation (read only)" class="policies-presets">
        {listing.presets.map(({ name }) => (
          <li key={name}>
            <a
              href={hrefOf('policies', ['files'], { file: `preset:${name}` })}
              aria-current={`preset:${name}` === wanted ? 'true' : undefined}
            >
              {name}
            </a>
          </li>
        ))}
      </Group>
    </nav>
  )
}

function Group({ title, children, class: own }: { title: string; children: ComponentChildren; class?: string }) {
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <ul class={own} {...(own !== undefined && { tabIndex: 0, role: 'list', 'aria-label': title })}>
        {children}
      </ul>
    </section>
  )
}

function Leaf({ to, wanted, label, file }: { to: string; wanted: string; label: string; file: PolicyFileView }) {
  return (
    <li>
      <a href={hrefOf('policies', ['files'], { file: to })} aria-current={to === wanted ? 'true' : undefined}>
        <Name text={label} />
        {file.text === undefined && file.problem === undefined && <span class="small quiet">no file yet</span>}
        {file.problem !== undefined && <Badge tone="bad">cannot be read</Badge>}
        {file.sessions.length > 0 && (
          <span class="small quiet">{file.sessions.length === 1 ? '1 session' : `${file.sessions.length} sessions`}</span>
        )}
      </a>
    </li>
  )
}

function NewRole() {
  const [name, setName] = useState('')
  return (
    <li>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault()
          location.hash = hrefOf('policies', ['files'], { file: `role:${name}` })
          setName('')
        }}
      >
        <input
          class="input grow"
          aria-label="Name of a new role"
          placeholder="new role"
          pattern="[a-z0-9\-]{1,64}"
          title="lower-case letters, digits and -"
          required
          value={name}
          onInput={({ currentTarget }) => setName(currentTarget.value)}
        />
        <button type="submit" class="button">
          New
        </button>
      </form>
    </li>
  )
}
