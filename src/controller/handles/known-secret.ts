import { isDeepStrictEqual } from 'node:util'
import type { SecretGrant } from '../../policy/policy.ts'
import { describeSource } from '../../policy/policy.ts'
import { SECRET_KEY, type SecretSource } from '../../wire/secret-source.ts'
import type { SecretSubject } from '../../wire/question.ts'
import { SallyportError } from '../../kernel/errors.ts'
import { shown } from '../../kernel/shown.ts'
import type { RequestPlace } from '../requests/requests.ts'
import type { Providers } from '../providers/providers.ts'

/** What `resources` say for handles: by the first the operator is asked, by the second the policy has answered. */
export const BY_REQUEST = 'method:secret.request'
export const BY_POLICY = 'method:secret.use_in'

export type KnownSecretParts = {
  readonly providers: Pick<Providers, 'problem'>
  readonly vault: {
    has(key: string, holder: { readonly workspace?: string; readonly role?: string }): Promise<'there' | 'absent' | 'kept' | 'closed'>
  }
}

/** What is behind a name for one session, for the operator alone: nothing of it reaches the agent before somebody said yes. */
export type KnownSecret = Pick<SecretSubject, 'state' | 'note'> & {
  readonly source: SecretSource
  /** Of the policy. A key of the vault that it does not declare has none. */
  readonly grant?: SecretGrant
  /** `free`: the policy gives it out. `ask`: the operator may. `kept`: nobody may. */
  readonly permission: 'free' | 'ask' | 'kept'
}

/** @throws request_invalid for what cannot be a name of a secret */
export async function knownSecret(parts: KnownSecretParts, place: RequestPlace, name: string): Promise<KnownSecret> {
  if (!SECRET_KEY.test(name))
    throw new SallyportError('request_invalid', `"${shown(name)}" is no name of a secret`, {
      hint: 'letters, digits, "_", "." and "-", 128 at most, beginning with a letter or "_"',
    })
  const { secrets } = place.policy()
  const grant = secrets.find((secret) => secret.name === name)
  const source: SecretSource = grant?.source ?? { kind: 'vault', key: name }
  const found = await look(parts, place, source, name)
  // Under another name it is the same secret: what the policy says of it there holds.
  const same = grant === undefined ? secrets.filter((secret) => isDeepStrictEqual(secret.source, source)) : [grant]
  if (grant === undefined && (same.length === 0 || same.some(isForHandles)))
    return { ...found, source, permission: found.state === 'kept' ? 'kept' : 'ask' }
  if (grant?.uses.includes(BY_POLICY) === true) return { ...found, source, grant, permission: 'free' }
  if (grant?.uses.includes(BY_REQUEST) === true) return { ...found, source, grant, permission: found.state === 'kept' ? 'kept' : 'ask' }
  const uses = [...new Set(same.flatMap((secret) => secret.uses))].join(', ') || 'nothing'
  const names = grant === undefined ? `, as ${same.map((secret) => secret.name).join(' and ')},` : ''
  return {
    source,
    ...(grant && { grant }),
    permission: 'kept',
    state: 'kept',
    note: `the policy keeps it${names} for ${uses}: allowing this gives nothing (where it should, add ${BY_REQUEST} to its resources there)`,
  }
}

function isForHandles({ uses }: SecretGrant): boolean {
  return uses.includes(BY_REQUEST) || uses.includes(BY_POLICY)
}

/** I66: Whether somebody who allows it now gives something: what is missing at that moment is a no. */
export function canBeGranted({ permission, state }: KnownSecret): boolean {
  return permission !== 'kept' && state !== 'absent'
}

/** Without reading a value, running a program or asking a server. The vault is looked into for every name, so that each takes as long. */
async function look(
  { providers, vault }: KnownSecretParts,
  { asker: { workspace, role } }: RequestPlace,
  source: SecretSource,
  name: string,
): Promise<Pick<KnownSecret, 'state' | 'note'>> {
  const key = source.kind === 'vault' ? source.key : name
  const found = await vault.has(key, { workspace, ...(role !== undefined && { role }) })
  if (source.kind !== 'vault') {
    const problem = providers.problem(source)
    if (problem !== undefined) return { state: 'absent', note: `it cannot be had now: ${problem}` }
    const isPlain = source.kind === 'env' || source.kind === 'file'
    return isPlain
      ? { state: 'there', note: 'it is there; nobody has read it yet' }
      : { state: 'unknown', note: `nobody can say before it is used: ${describeSource(source)} has to be asked` }
  }
  switch (found) {
    case 'there':
      return { state: 'there', note: 'it is there; nobody has read it yet' }
    case 'absent':
      return { state: 'absent', note: `there is no such secret: add it with sallyport secret set ${key}, then allow` }
    case 'kept':
      return { state: 'kept', note: 'the vault has it, for another workspace or role than this: allowing this gives nothing' }
    case 'closed':
      return { state: 'unknown', note: 'the vault is closed: nobody can say whether it is there' }
  }
}
