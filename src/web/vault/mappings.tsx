import type { MappingPlace, MappingsView } from '../../wire/secrets.ts'
import { Badge } from '../parts/badge.tsx'
import { Button } from '../parts/button.tsx'
import { Exact, Name } from '../parts/exact.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import type { Resource } from '../parts/use-resource.ts'
import { hrefOf } from '../shell/route.ts'
import { inWords } from './words.tsx'

/** Who has a use for a secret: what writes it where, by which layer, and which sessions have that now. */
export function Mappings({ mappings: { value, problem }, onAdd }: { mappings: Resource<MappingsView>; onAdd: () => void }) {
  return (
    <section class="card stack" aria-labelledby="vault-mappings">
      <div class="row">
        <h2 id="vault-mappings" class="grow">
          Where it goes
        </h2>
        <Button onPress={onAdd}>Add a mapping</Button>
      </div>
      {problem !== undefined && <ProblemNote problem={problem} />}
      {value?.problems.map((one) => (
        <p key={one} class="note note-warn">
          Not looked through: <Exact text={one} />
        </p>
      ))}
      {value !== undefined && isNowhere(value) && <p class="quiet">Nowhere yet. A mapping says which hosts get it, and how.</p>}
      {value !== undefined && <Items of={value} />}
      {value !== undefined && value.sessions.length > 0 && <Running sessions={value.sessions} />}
    </section>
  )
}

function Items({ of: { credentials, servers, declarations } }: { of: MappingsView }) {
  return (
    <ul class="vault-mappings">
      {credentials.map((one) => (
        <li key={`${one.id} ${one.file} ${one.place}`}>
          <Entry kind="credential" name={one.id} />
          <p>
            <Exact text={one.place} /> to <Exact text={one.domains.join(', ')} />
          </p>
          {(one.methods ?? one.paths) !== undefined && (
            <p class="small">
              <Exact text={[...(one.methods ?? []), ...(one.paths ?? [])].join(' ')} />
            </p>
          )}
          <Place of={one} />
        </li>
      ))}
      {servers.map(({ name, where }) => (
        <li key={`server ${name}`}>
          <Entry kind="MCP server" name={name} />
          <p class="quiet small">
            <Exact text={where} />
          </p>
        </li>
      ))}
      {declarations.map((one) => (
        <li key={`secret ${one.secret} ${one.file} ${one.resources.join(' ')}`}>
          <Entry kind="declared" name={one.secret} />
          <p>
            for <Exact text={one.resources.map(inWords).join(', ') || 'nothing yet'} />
          </p>
          <Place of={one} />
        </li>
      ))}
    </ul>
  )
}

function Entry({ kind, name }: { kind: string; name: string }) {
  return (
    <p class="row">
      <Badge tone="quiet">{kind}</Badge>
      <strong>
        <Name text={name} />
      </strong>
    </p>
  )
}

function Running({ sessions }: { sessions: MappingsView['sessions'] }) {
  return (
    <p>
      Running with it:{' '}
      {sessions.map(({ id, name }, at) => (
        <span key={id}>
          {at > 0 && ', '}
          <a href={hrefOf('sessions', [id])}>
            <Name text={name} />
          </a>
        </span>
      ))}
    </p>
  )
}

function Place({ of: { layer, file, line } }: { of: MappingPlace }) {
  return (
    <p class="quiet small" title={`line ${line}`}>
      <Exact text={layer} /> ·{' '}
      <span class="mono">
        <Exact text={`${file}:${line}`} />
      </span>
    </p>
  )
}

function isNowhere({ credentials, servers, declarations }: MappingsView): boolean {
  return credentials.length + servers.length + declarations.length === 0
}
