import { useEffect, useState } from 'preact/hooks'
import { SECRET_KEY } from '../../wire/secret-source.ts'
import type { MappingsView, SecretChangeView, SecretsView, SecretView } from '../../wire/secrets.ts'
import { Button } from '../parts/button.tsx'
import { Empty } from '../parts/empty.tsx'
import { Exact, Name } from '../parts/exact.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { Ago } from '../parts/time.tsx'
import { useResource } from '../parts/use-resource.ts'
import { ViewHead } from '../parts/view-head.tsx'
import { go, hrefOf } from '../shell/route.ts'
import { copySecret } from './copy-secret.ts'
import { DescribeDialog } from './describe-dialog.tsx'
import { MappingDialog } from './mapping-dialog.tsx'
import { Mappings } from './mappings.tsx'
import { RemoveDialog } from './remove-dialog.tsx'
import { StoreDialog } from './store-dialog.tsx'
import { Masked, Scope, Tags, Used } from './words.tsx'

type Open = 'replace' | 'describe' | 'remove' | 'map'

type Props = {
  readonly name: string
  readonly found: SecretsView
  /** `found` is from before, and is read anew. */
  readonly isLoading: boolean
  readonly reload: () => void
}

/** One secret: what it is, where it goes, and what became of it. */
export function SecretDetail({ name, found, isLoading, reload }: Props) {
  const secret = found.secrets.find(({ key }) => key === name)
  const damage = found.problems.find(({ key }) => key === name)?.problem
  const path = `/v1/secrets/${encodeURIComponent(name)}`
  const mappings = useResource<MappingsView>(secret === undefined ? undefined : `${path}/mappings`)
  const changes = useResource<readonly SecretChangeView[]>(secret === undefined ? undefined : `${path}/changes`)
  const [open, setOpen] = useState<Open>()
  useEffect(() => document.querySelector<HTMLElement>('#main h1')?.focus(), [])
  const close = (): void => setOpen(undefined)
  const changed = (): void => {
    close()
    reload()
    mappings.reload()
    changes.reload()
  }
  const isThere = secret !== undefined || damage !== undefined
  return (
    <>
      <p class="small">
        <a href={hrefOf('vault')}>All secrets</a>
      </p>
      <ViewHead title={name} about={secret !== undefined && secret.name !== name ? <Name text={secret.name} /> : undefined}>
        {secret !== undefined && <Button onPress={() => copySecret(name)}>Copy the value</Button>}
        {isThere && SECRET_KEY.test(name) && <Button onPress={() => setOpen('replace')}>Replace</Button>}
        {secret !== undefined && <Button onPress={() => setOpen('describe')}>Name, tags, scope</Button>}
        {isThere && (
          <Button kind="bad" onPress={() => setOpen('remove')}>
            Remove
          </Button>
        )}
      </ViewHead>
      {!isThere && isLoading && <p class="quiet">…</p>}
      {!isThere && !isLoading && <Empty title={found.vault.state === 'closed' ? 'The vault is closed' : 'The vault has no such secret'} />}
      {damage !== undefined && (
        <div class="note note-bad" role="alert">
          It is not what was stored last: <Exact text={damage} />. Store it anew, or remove it.
        </div>
      )}
      {secret !== undefined && (
        <div class="vault-detail">
          <About secret={secret} />
          <Mappings mappings={mappings} onAdd={() => setOpen('map')} />
          <Changes changes={changes.value} />
          {changes.problem !== undefined && <ProblemNote problem={changes.problem} />}
        </div>
      )}
      {open === 'replace' && (
        <StoreDialog found={found} replaces={secret ?? { key: name, version: 0 }} onStored={changed} onClose={close} />
      )}
      {open === 'describe' && secret !== undefined && <DescribeDialog secret={secret} found={found} onDone={changed} onClose={close} />}
      {open === 'map' && secret !== undefined && <MappingDialog secret={secret} found={found} onDone={changed} onClose={close} />}
      {open === 'remove' && (
        <RemoveDialog
          name={name}
          mappings={mappings.value}
          onClose={close}
          onDone={() => {
            reload()
            go('vault')
          }}
        />
      )}
    </>
  )
}

function About({ secret }: { secret: SecretView }) {
  return (
    <section class="card stack" aria-labelledby="vault-about">
      <h2 id="vault-about">The secret</h2>
      <dl class="facts">
        <dt>Value</dt>
        <dd>
          <Masked />
        </dd>
        <dt>In policies</dt>
        <dd>
          <code>vault:{secret.key}</code>
        </dd>
        <dt>For</dt>
        <dd>
          <Scope of={secret} />
        </dd>
        <dt>Tags</dt>
        <dd>
          <Tags tags={secret.tags} />
        </dd>
        <dt>Version</dt>
        <dd>
          {secret.version}, <Ago at={secret.updatedAt} />
        </dd>
        <dt>Stored first</dt>
        <dd>
          <Ago at={secret.createdAt} />
        </dd>
        <dt>Last used</dt>
        <dd>
          <Used used={secret.used} />
        </dd>
      </dl>
    </section>
  )
}

const DID: Readonly<Record<string, string>> = {
  set: 'value stored',
  tagged: 'tags changed',
  described: 'name, tags or scope changed',
  removed: 'removed',
  copied: 'value copied',
  imported: 'imported',
  exported: 'exported',
}

function Changes({ changes }: { changes: readonly SecretChangeView[] | undefined }) {
  return (
    <section class="card stack" aria-labelledby="vault-changes">
      <h2 id="vault-changes">Versions and copies</h2>
      {changes?.length === 0 && <p class="quiet">The audit of this home has none.</p>}
      {changes !== undefined && changes.length > 0 && (
        <ul class="vault-changes">
          {changes.map(({ at, did, version, by }) => (
            <li key={`${at} ${did} ${version}`}>
              <span class="vault-version">{version === undefined ? '' : `version ${version}`}</span>
              <span class="grow">
                {DID[did] ?? did} <span class="quiet small">by</span> <Exact text={by} />
              </span>
              <span class="quiet small">
                <Ago at={at} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}
