import type { PolicyListing } from '../../wire/policies.ts'
import { nameOf, Offers } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'

/** Whose policy is meant: of a session that runs, or the one that a session would have. */
export type Whose = { readonly session?: string; readonly workspace?: string; readonly role?: string; readonly harness?: string }

/** As the daemon is asked. None while it is not clear. */
export function queryOf({ session, workspace, role, harness }: Whose): Record<string, string> | undefined {
  if (session !== undefined && session !== '') return { session }
  if (workspace === undefined || workspace === '') return undefined
  return { workspace, ...(role ? { role } : {}), ...(harness ? { harness } : {}) }
}

/** What is asked about before anybody chose: a session that runs, or the first workspace. */
export function firstOf({ sessions, files }: PolicyListing): Whose {
  const [session] = sessions
  if (session !== undefined) return { session: session.id }
  const known = files.find(({ layer }) => layer.kind === 'workspace')?.layer
  return known?.kind === 'workspace' ? { workspace: known.workspace } : {}
}

export function ChooseWhose({ listing, whose, onChange }: { listing: PolicyListing; whose: Whose; onChange: (whose: Whose) => void }) {
  const roles = listing.files.flatMap(({ layer }) => (layer.kind === 'role' ? [layer.role] : []))
  const workspaces = listing.files.flatMap(({ layer }) => (layer.kind === 'workspace' ? [layer.workspace] : []))
  const harnesses = listing.presets.flatMap(({ name }) =>
    name.startsWith('harness/') && name !== 'harness/template' ? [name.slice(8)] : [],
  )
  const isSession = whose.session !== undefined && whose.session !== ''
  return (
    <div class="policies-whose">
      <Field
        label="Session"
        control={(attributes) => (
          <select
            {...attributes}
            class="input"
            value={whose.session ?? ''}
            onChange={({ currentTarget: { value } }) => onChange(value === '' ? { workspace: workspaces[0] ?? '' } : { session: value })}
          >
            <option value="">one that would start</option>
            {listing.sessions.map(({ id, name }) => (
              <option key={id} value={id}>
                {nameOf(name)}
              </option>
            ))}
          </select>
        )}
      />
      {!isSession && (
        <>
          <Field
            label="Workspace"
            hint="Its folder, as an absolute path"
            control={(attributes) => (
              <input
                {...attributes}
                class="input"
                list="policies-workspaces"
                value={whose.workspace ?? ''}
                onChange={({ currentTarget: { value } }) => onChange({ ...whose, workspace: value })}
              />
            )}
          />
          <Offers id="policies-workspaces" values={workspaces} />
          <Choice label="Role" none="none" values={roles} value={whose.role} onChange={(role) => onChange({ ...whose, role })} />
          <Choice
            label="Harness"
            none="as the policy says"
            values={harnesses}
            value={whose.harness}
            onChange={(harness) => onChange({ ...whose, harness })}
          />
        </>
      )}
    </div>
  )
}

function Choice(props: {
  readonly label: string
  readonly none: string
  readonly values: readonly string[]
  readonly value: string | undefined
  readonly onChange: (value: string) => void
}) {
  return (
    <Field
      label={props.label}
      control={(attributes) => (
        <select {...attributes} class="input" value={props.value ?? ''} onChange={({ currentTarget: { value } }) => props.onChange(value)}>
          <option value="">{props.none}</option>
          {props.values.map((value) => (
            <option key={value} value={value}>
              {nameOf(value)}
            </option>
          ))}
        </select>
      )}
    />
  )
}
