import type { SecretState, ServersFile } from '../../wire/servers.ts'
import { Name, nameOf } from '../parts/exact.tsx'

const WORDS: Readonly<Record<SecretState, string>> = {
  there: '',
  unknown: 'is not there',
  kept: 'is kept for others',
  locked: 'the vault is closed',
  unread: 'not looked for',
}

/** A secret by its name, in the place of a reference. What is wrong with it is said in words. */
export function SecretChip({ name, state, source }: { name: string; state: SecretState | undefined; source?: string | undefined }) {
  const words = state === undefined ? '' : WORDS[state]
  const isBad = state === 'unknown' || state === 'locked'
  return (
    <span class={`servers-chip${isBad ? ' servers-chip-bad' : ''}`} title={source === undefined ? undefined : nameOf(source)}>
      <svg viewBox="0 0 16 16" width="12" height="12" aria-hidden="true">
        <path d="M4.5 7V5a3.5 3.5 0 0 1 7 0v2h.5a1 1 0 0 1 1 1v5a1 1 0 0 1-1 1H4a1 1 0 0 1-1-1V8a1 1 0 0 1 1-1zm1.5 0h4V5a2 2 0 0 0-4 0z" />
      </svg>
      <span class="visually-hidden">secret </span>
      <Name text={name} />
      {words !== '' && <span class="servers-chip-state">{words}</span>}
    </span>
  )
}

/** Those of a text that is being written. */
export function SecretChips({ keys, file }: { keys: readonly string[]; file: ServersFile }) {
  if (keys.length === 0) return null
  return (
    <p class="servers-more">
      {keys.map((key) => (
        <SecretChip key={key} name={key} state={stateOf(key, file)} />
      ))}
    </p>
  )
}

/** As far as the keys that are known tell. */
export function stateOf(key: string, file: ServersFile): SecretState {
  if (file.secrets.some((one) => one.key === key)) return 'there'
  return file.isVaultOpen ? 'unknown' : 'locked'
}
