import { useState } from 'preact/hooks'
import type { PolicyEdit } from '../../wire/policies.ts'
import type { PresetView, SecretView } from '../../wire/secrets.ts'
import { Exact, nameOf } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'

/** A preset, and which key of the vault stands for each name that it looks for. */
export type Chosen = { readonly preset: PresetView; readonly keys: Readonly<Record<string, string>> }

type Props = {
  readonly presets: readonly PresetView[]
  readonly secret: SecretView
  /** Of the vault. */
  readonly keys: readonly string[]
  readonly chosen: Chosen | undefined
  readonly onChoose: (chosen: Chosen) => void
}

/** The ready files of services: each knows its hosts, and how they take a credential. */
export function PresetPicker({ presets, secret, keys, chosen, onChoose }: Props) {
  const [text, setText] = useState('')
  const sought = text.trim().toLowerCase()
  const shown = presets.filter(({ preset, about, credentials, secrets }) =>
    [preset, about, ...secrets, ...credentials.flatMap(({ domains }) => domains)].some((one) => one.toLowerCase().includes(sought)),
  )
  return (
    <div class="stack">
      <Field
        label="Search services"
        control={(attributes) => (
          <input
            {...attributes}
            class="input"
            type="search"
            autocomplete="off"
            placeholder="github"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        )}
      />
      <div class="vault-presets" role="radiogroup" aria-label="Services" tabIndex={0}>
        {shown.map((preset) => (
          <label key={preset.preset} class="vault-preset">
            <input
              type="radio"
              name="vault-preset"
              disabled={preset.isTemplate}
              checked={chosen?.preset.preset === preset.preset}
              onChange={() => onChoose({ preset, keys: beginKeys(preset, secret.key, keys) })}
            />
            <span class="grow">
              <strong>
                <Exact text={preset.preset.replace(/^service\//, '')} />
              </strong>{' '}
              <Exact text={preset.about} />
              <span class="quiet small vault-of">
                <Exact text={[...new Set(preset.credentials.flatMap(({ domains }) => domains))].join(', ')} />
              </span>
              {preset.isTemplate && <span class="quiet small vault-of">A template: copy its file and fill it in first.</span>}
            </span>
          </label>
        ))}
        {shown.length === 0 && <p class="quiet">No service is like that: choose hosts yourself.</p>}
      </div>
      {chosen !== undefined && <Names chosen={chosen} keys={keys} onChoose={onChoose} />}
    </div>
  )
}

function Names({ chosen, keys, onChoose }: { chosen: Chosen; keys: readonly string[]; onChoose: (chosen: Chosen) => void }) {
  return (
    <div class="vault-names">
      {chosen.preset.secrets.map((name) => (
        <Field
          key={name}
          label={`${nameOf(name)} is`}
          hint={placesOf(chosen.preset)}
          control={(attributes) => (
            <select
              {...attributes}
              class="input mono"
              value={chosen.keys[name] ?? ''}
              onChange={(event) => onChoose({ ...chosen, keys: { ...chosen.keys, [name]: event.currentTarget.value } })}
            >
              <option value="">declared elsewhere</option>
              {keys.map((key) => (
                <option key={key} value={key}>
                  {nameOf(key)}
                </option>
              ))}
            </select>
          )}
        />
      ))}
    </div>
  )
}

function placesOf({ credentials }: PresetView): string {
  return nameOf(credentials.map(({ domains, place }) => `${place} to ${domains.join(', ')}`).join('; '))
}

/** Those of the same name; of the others the first is the one that is mapped. */
function beginKeys({ secrets }: PresetView, key: string, keys: readonly string[]): Record<string, string> {
  const same = Object.fromEntries(secrets.map((name) => [name, keys.includes(name) ? name : '']))
  if (Object.values(same).includes(key)) return same
  const [first] = secrets
  return first === undefined ? same : { ...same, [first]: key }
}

export function editOfPreset({ preset, keys }: Chosen): PolicyEdit {
  const secrets = preset.secrets.flatMap((name) => (keys[name] ? [{ name, source: `vault:${keys[name]}` }] : []))
  return { kind: 'credential', preset: preset.preset, secrets }
}
