import { useState } from 'preact/hooks'
import type { LayerRef, PolicyEdit } from '../../wire/policies.ts'
import type { PresetView, SecretsView, SecretView } from '../../wire/secrets.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { useResource } from '../parts/use-resource.ts'
import { ChangeDialog } from '../policies/change-dialog.tsx'
import { beginHosts, editOfHosts, HostsFields, problemOfHosts } from './hosts-fields.tsx'
import { editOfPreset, PresetPicker, type Chosen } from './preset-picker.tsx'
import { ScopeField } from './scope-field.tsx'

type Props = {
  readonly secret: SecretView
  readonly found: SecretsView
  readonly onDone: () => void
  readonly onClose: () => void
}

/** Which hosts get a secret, and how: of a service that is known, or of one's own. What that changes is looked at before it is done. */
export function MappingDialog({ secret, found, onDone, onClose }: Props) {
  const presets = useResource<readonly PresetView[]>('/v1/secret-presets')
  const [way, setWay] = useState<'service' | 'hosts'>('service')
  const [chosen, setChosen] = useState<Chosen>()
  const [hosts, setHosts] = useState(() => beginHosts(secret.key))
  const [layer, setLayer] = useState(layerOfScope(secret))
  const [problem, setProblem] = useState<string>()
  const [edit, setEdit] = useState<PolicyEdit>()
  if (edit !== undefined) return <ChangeDialog layer={layerRefOf(layer)} edit={edit} onDone={onDone} onClose={() => setEdit(undefined)} />

  const look = (): void => {
    const wrong = way === 'hosts' ? problemOfHosts(hosts) : chosen === undefined ? 'Choose a service first.' : undefined
    setProblem(wrong)
    if (wrong !== undefined) return
    setEdit(way === 'hosts' || chosen === undefined ? editOfHosts(secret.key, hosts) : editOfPreset(chosen))
  }
  return (
    <Dialog title={`Where ${secret.key} goes`} wide onClose={onClose}>
      <div class="row vault-ways" role="radiogroup" aria-label="What gets it">
        <label class="vault-check">
          <input type="radio" name="vault-way" checked={way === 'service'} onChange={() => setWay('service')} />A service that is known
        </label>
        <label class="vault-check">
          <input type="radio" name="vault-way" checked={way === 'hosts'} onChange={() => setWay('hosts')} />
          Hosts of your choice
        </label>
      </div>
      {presets.problem !== undefined && <ProblemNote problem={presets.problem} />}
      {way === 'service' ? (
        <PresetPicker
          presets={presets.value ?? []}
          secret={secret}
          keys={found.secrets.map(({ key }) => key)}
          chosen={chosen}
          onChoose={setChosen}
        />
      ) : (
        <HostsFields hosts={hosts} onChange={setHosts} />
      )}
      <ScopeField
        label="In the policy of"
        hint="What is written there holds for all of its sessions."
        value={layer}
        onChange={setLayer}
        workspaces={found.workspaces}
        roles={found.roles}
      />
      {problem !== undefined && (
        <p class="note note-bad" role="alert">
          {problem}
        </p>
      )}
      <div class="dialog-foot">
        <Button onPress={onClose}>Cancel</Button>
        <Button kind="main" onPress={look}>
          Look at the change
        </Button>
      </div>
    </Dialog>
  )
}

/** A policy beyond those who may have the secret would keep the others from starting. */
function layerOfScope({ scope, scopeFolder }: SecretView): string {
  return scopeFolder === undefined ? (scope.startsWith('role:') ? scope : 'global') : `workspace:${scopeFolder}`
}

function layerRefOf(layer: string): LayerRef {
  if (layer.startsWith('role:')) return { kind: 'role', role: layer.slice('role:'.length) }
  if (layer.startsWith('workspace:')) return { kind: 'workspace', workspace: layer.slice('workspace:'.length) }
  return { kind: 'global' }
}
