import { useState } from 'preact/hooks'
import type { SecretsView, SecretView } from '../../wire/secrets.ts'
import { Empty } from '../parts/empty.tsx'
import { Exact, Name, nameOf } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'
import { Ago } from '../parts/time.tsx'
import { hrefOf } from '../shell/route.ts'
import { Masked, Scope, Tags, Used } from './words.tsx'
import { Table } from '../parts/table.tsx'

/** Every secret in a line, and those that have to be settled. */
export function SecretList({ found: { secrets, problems } }: { found: SecretsView }) {
  const [text, setText] = useState('')
  const [tag, setTag] = useState('')
  const tags = [...new Set(secrets.flatMap((secret) => secret.tags))].toSorted()
  const shown = secrets.filter((secret) => matches(secret, text) && (tag === '' || secret.tags.includes(tag)))
  return (
    <section class="card stack" aria-label="Secrets">
      <div class="vault-filters">
        <Field
          label="Search"
          control={(attributes) => (
            <input
              {...attributes}
              class="input"
              type="search"
              autocomplete="off"
              value={text}
              onInput={(event) => setText(event.currentTarget.value)}
            />
          )}
        />
        <Field
          label="Tag"
          control={(attributes) => (
            <select {...attributes} class="input" value={tag} onChange={(event) => setTag(event.currentTarget.value)}>
              <option value="">any</option>
              {tags.map((one) => (
                <option key={one} value={one}>
                  {nameOf(one)}
                </option>
              ))}
            </select>
          )}
        />
        <p class="small quiet vault-count" role="status">
          {shown.length === secrets.length ? counted(secrets.length) : `${shown.length} of ${counted(secrets.length)}`}
        </p>
      </div>
      {problems.length > 0 && (
        <div class="note note-bad">
          <p>These are not what was stored last. Store each anew, or remove it:</p>
          <ul>
            {problems.map(({ key, problem }) => (
              <li key={key}>
                <a href={hrefOf('vault', [key])}>
                  <Name text={key} />
                </a>
                : <Exact text={problem} />
              </li>
            ))}
          </ul>
        </div>
      )}
      {shown.length === 0 ? (
        <Empty title="No secret is like that" />
      ) : (
        <Table label="Table of secrets" heads={['Secret', 'Value', 'Tags', 'For', 'Version', 'Last used']} class="vault-table">
          {shown.map((secret) => (
            <Row key={secret.key} secret={secret} />
          ))}
        </Table>
      )}
    </section>
  )
}

function Row({ secret }: { secret: SecretView }) {
  const { key, name, tags, version, updatedAt, used } = secret
  return (
    <tr>
      <th scope="row">
        <a class="mono" href={hrefOf('vault', [key])}>
          <Name text={key} />
        </a>
        {name !== key && (
          <span class="quiet small vault-of">
            <Name text={name} />
          </span>
        )}
      </th>
      <td>
        <Masked />
      </td>
      <td>
        <Tags tags={tags} />
      </td>
      <td>
        <Scope of={secret} />
      </td>
      <td>
        {version}
        <span class="quiet small vault-of">
          <Ago at={updatedAt} />
        </span>
      </td>
      <td>
        <Used used={used} />
      </td>
    </tr>
  )
}

function counted(count: number): string {
  return count === 1 ? '1 secret' : `${count} secrets`
}

function matches({ key, name, tags, scope, scopeFolder = '' }: SecretView, text: string): boolean {
  const sought = text.trim().toLowerCase()
  return [key, name, scope, scopeFolder, ...tags].some((one) => one.toLowerCase().includes(sought))
}
