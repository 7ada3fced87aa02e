import { Offers } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'
import { sessionList } from '../sessions/session-list.ts'
import { ask } from './asked.ts'

/** Which session the list is of. */
export function SessionPicker(props: { query: URLSearchParams; harnesses: readonly string[]; harness: string | undefined }) {
  const { query, harnesses, harness } = props
  const known = (sessionList.value ?? []).map(({ workspace }) => workspace).toSorted()
  const workspace = query.get('workspace') ?? ''
  return (
    <div class="card servers-picker">
      <Field
        label="Workspace"
        control={(attributes) => (
          <>
            <input
              {...attributes}
              class="input"
              list="servers-workspaces"
              placeholder="any"
              spellcheck={false}
              value={workspace}
              onChange={(event) => ask(query, { workspace: event.currentTarget.value.trim() })}
            />
            <Offers id="servers-workspaces" values={known} />
          </>
        )}
      />
      <Field
        label="Harness"
        control={(attributes) => (
          <select
            {...attributes}
            class="input"
            value={query.get('harness') ?? ''}
            onChange={(event) => ask(query, { harness: event.currentTarget.value })}
          >
            <option value="">
              {harness === undefined || query.has('harness') ? 'as the policy says' : `as the policy says: ${harness}`}
            </option>
            {harnesses.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        )}
      />
      <Field
        label="Role"
        control={(attributes) => (
          <input
            {...attributes}
            class="input"
            placeholder="none"
            spellcheck={false}
            value={query.get('role') ?? ''}
            onChange={(event) => ask(query, { role: event.currentTarget.value.trim() })}
          />
        )}
      />
    </div>
  )
}
