import type { ServersFile } from '../../wire/servers.ts'
import { Button } from '../parts/button.tsx'
import { referencesIn } from './references.ts'
import { SecretChips } from './secret-chip.tsx'
import { SecretInput } from './secret-input.tsx'

export type ValueRow = { readonly name: string; readonly value: string }

/** A program and its arguments, each as it is: no shell reads them. */
export function ArgumentRows({ values, onValues }: { values: readonly string[]; onValues: (values: readonly string[]) => void }) {
  return (
    <fieldset class="field">
      <legend class="servers-legend">Command</legend>
      <ul class="servers-rows">
        {values.map((value, at) => (
          <li key={at}>
            <textarea
              class="input servers-arg"
              rows={1}
              aria-label={at === 0 ? 'Program' : `Argument ${at}`}
              placeholder={at === 0 ? 'program' : ''}
              spellcheck={false}
              value={value}
              onInput={(event) => onValues(values.with(at, event.currentTarget.value))}
            />
            {at > 0 && (
              <Button aria-label={`Take argument ${at} out`} onPress={() => onValues(values.toSpliced(at, 1))}>
                ×
              </Button>
            )}
          </li>
        ))}
      </ul>
      <div>
        <Button onPress={() => onValues([...values, ''])}>Add an argument</Button>
      </div>
      <span class="quiet small">Arguments are in the list of processes: a secret goes into a variable. No shell reads them.</span>
    </fieldset>
  )
}

type Props = {
  readonly what: 'variable' | 'header'
  readonly rows: readonly ValueRow[]
  readonly onRows: (rows: readonly ValueRow[]) => void
  readonly file: ServersFile
}

/** Variables or headers, with secrets by their names. */
export function ValueRows({ what, rows, onRows, file }: Props) {
  return (
    <fieldset class="field">
      <legend class="servers-legend">{what === 'variable' ? 'Environment' : 'Headers'}</legend>
      <ul class="servers-rows">
        {rows.map(({ name, value }, at) => (
          <li key={at}>
            <input
              class="input servers-name"
              aria-label={`Name of ${what} ${at + 1}`}
              placeholder={what === 'variable' ? 'NAME' : 'Name'}
              spellcheck={false}
              value={name}
              onInput={(event) => onRows(rows.with(at, { name: event.currentTarget.value, value }))}
            />
            <SecretInput
              value={value}
              multiline={value.includes('\n')}
              secrets={file.secrets}
              label={`Value of ${what} ${at + 1}`}
              onValue={(next) => onRows(rows.with(at, { name, value: next }))}
            />
            <Button aria-label={`Take ${what} ${at + 1} out`} onPress={() => onRows(rows.toSpliced(at, 1))}>
              ×
            </Button>
          </li>
        ))}
      </ul>
      <SecretChips keys={[...new Set(rows.flatMap(({ value }) => referencesIn(value)))]} file={file} />
      <div>
        <Button onPress={() => onRows([...rows, { name: '', value: '' }])}>Add a {what}</Button>
      </div>
      <span class="quiet small">
        {file.isVaultOpen ? (
          <>
            Type <code>{'${'}</code> for the secrets of the vault: the value never is in the file, nor in the agent.
          </>
        ) : (
          'The vault is closed: which secrets there are cannot be told.'
        )}
      </span>
    </fieldset>
  )
}
