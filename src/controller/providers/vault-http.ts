import { readFileSync } from 'node:fs'
import { Agent, request } from 'undici'
import * as z from 'zod'
import { checkedSecret } from '../../credential/credential.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Secret } from '../../kernel/secret.ts'
import { describeSource } from '../../policy/policy.ts'
import type { SecretSource, SourceOf } from '../../wire/secret-source.ts'
import type { Provider } from './provider.ts'
import type { HashicorpSettings } from './settings.ts'

type Source = SourceOf<'vault-http'>
type ReadSecret = (name: string, source: SecretSource, signal: AbortSignal) => Promise<Secret>
type Call = {
  readonly method: 'GET' | 'POST' | 'PATCH'
  /** Below `/v1/`, encoded. */
  readonly path: string
  readonly token: Secret
  readonly body?: unknown
  readonly signal: AbortSignal
}
type Answer = { readonly status: number; readonly body: unknown }

/** The answers of https://developer.hashicorp.com/vault/api-docs, as far as they are read. Others may have more in them. */
const Version = z.object({
  data: z.object({
    data: z.record(z.string(), z.unknown()).nullable(),
    metadata: z.object({ deletion_time: z.string().optional(), destroyed: z.boolean().optional() }).optional(),
  }),
})
const Keys = z.object({ data: z.object({ keys: z.array(z.string()).max(LIMITS.secretsListedMax) }) })
const Unwrapped = z.object({ auth: z.object({ client_token: z.string() }) })

/** Token of the settings, in errors. */
const TOKEN = 'vault-http token'

/**
 * HashiCorp Vault, key-value store of version 2. `set` and `delete` change one field and leave the others of the secret as they are.
 * @throws config_invalid when the file of authorities cannot be read
 */
export function openHashicorpVault(settings: HashicorpSettings | undefined, read: ReadSecret): Provider<'vault-http'> & AsyncDisposable {
  if (settings === undefined) return unsetVault()
  const agent = openAgent(settings)
  const tokenOf = createTokens(settings, read, (call) => ask(settings, agent, call))
  const call = async (name: string, rest: Omit<Call, 'token'>): Promise<Answer> =>
    ask(settings, agent, { ...rest, token: await tokenOf(rest.signal) }, name)
  return {
    kind: 'vault-http',
    async get(name, source, signal) {
      const query = source.version === undefined ? '' : `?version=${source.version}`
      const answer = await call(name, { method: 'GET', path: `${dataPath(source)}${query}`, signal })
      return valueOf(name, source, answer)
    },
    async set(source, value, signal) {
      refuseVersion(source, 'written')
      const change = { path: dataPath(source), signal }
      const patched = await call(value.name, { method: 'PATCH', body: { data: { [source.field]: value.reveal() } }, ...change })
      if (patched.status === 404) {
        // cas 0: only where there is nothing, so that no field is lost to a writer that came between.
        const created = await call(value.name, {
          method: 'POST',
          body: { options: { cas: 0 }, data: { [source.field]: value.reveal() } },
          ...change,
        })
        expectDone(source, created)
      } else expectDone(source, patched)
    },
    async delete(source, signal) {
      refuseVersion(source, 'deleted')
      const name = describeSource(source)
      // RFC 7396: null removes the member.
      const answer = await call(name, { method: 'PATCH', body: { data: { [source.field]: null } }, path: dataPath(source), signal })
      if (answer.status === 404) throw missing(name, source, 'there is no such secret')
      expectDone(source, answer)
    },
    async list(under, signal) {
      const [mount = '', ...parts] = (under ?? '').split('/').filter((part) => part !== '' && part !== '.' && part !== '..')
      if (mount === '')
        throw new SallyportError('usage', 'vault-http lists one store at a time: name its mount, or a folder below it', {
          hint: 'as in "secret" or "secret/ci"',
        })
      const path = [mount, 'metadata', ...parts].map(encodeURIComponent).join('/')
      const answer = await call('vault-http', { method: 'GET', path: `${path}?list=true`, signal })
      if (answer.status === 404) return []
      const keys = parse(Keys, answer, 'vault-http').data.keys
      return keys.map((key) => `vault-http:${[mount, ...parts, key].join('/')}`)
    },
    problem: () => undefined,
    cannot: 'use the program "vault"',
    [Symbol.asyncDispose]: () => agent.destroy(),
  }
}

function unsetVault(): Provider<'vault-http'> & AsyncDisposable {
  const why = 'no address of a HashiCorp Vault is set'
  return {
    kind: 'vault-http',
    get: (name) =>
      Promise.reject(
        new SallyportError('secret_unavailable', `the secret ${name} could not be obtained (${why})`, {
          hint: 'set it in providers.yaml: docs/PROVIDERS.md',
        }),
      ),
    problem: () => why,
    cannot: 'set the address of the server in providers.yaml first: docs/PROVIDERS.md',
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
}

function openAgent({ caFile }: HashicorpSettings): Agent {
  let ca: string | undefined
  try {
    ca = caFile === undefined ? undefined : readFileSync(caFile, 'utf8')
  } catch (error) {
    throw new SallyportError('config_invalid', `the authorities for vault-http, ${caFile}, cannot be read (${codeOf(error)})`, {
      cause: error,
    })
  }
  return new Agent({
    // Said here, so that no variable of the environment can take it back.
    connect: { rejectUnauthorized: true, timeout: LIMITS.vaultRequestMs, ...(ca !== undefined && { ca }) },
    maxResponseSize: LIMITS.vaultAnswerBytesMax,
    connections: LIMITS.secretResolutionsMax,
  })
}

/** The token as its source has it now; where that is a wrapping token, what it was unwrapped to, once for as long as it stays the same. */
function createTokens({ token, isWrapped }: HashicorpSettings, read: ReadSecret, call: (call: Call) => Promise<Answer>) {
  let unwrapped: { readonly wrapping: Secret; readonly token: Promise<Secret> } | undefined
  return async (signal: AbortSignal): Promise<Secret> => {
    const found = await read(TOKEN, token, signal)
    if (!isWrapped) return found
    if (unwrapped?.wrapping.equals(found) !== true) {
      // Not ended with the caller: the wrapping token is used up by the attempt.
      const current = { wrapping: found, token: unwrap(found, call) }
      unwrapped = current
      current.token.catch(() => {
        if (unwrapped === current) unwrapped = undefined
      })
    }
    return unwrapped.token
  }
}

async function unwrap(wrapping: Secret, call: (call: Call) => Promise<Answer>): Promise<Secret> {
  const signal = AbortSignal.timeout(LIMITS.vaultRequestMs)
  const answer = await call({ method: 'POST', path: 'sys/wrapping/unwrap', token: wrapping, signal })
  if (answer.status !== 200) {
    throw unavailable(TOKEN, `the wrapping token was not accepted: status ${answer.status}`, {
      hint: 'it is used up or expired. If it was not used here, somebody else has unwrapped it: revoke what was in it, then make a new one',
    })
  }
  return checkedSecret(TOKEN, parse(Unwrapped, answer, TOKEN).auth.client_token)
}

/** One request, its answer read whole. Statuses of refusals that are the same for all are thrown here. @throws secret_unavailable */
async function ask(settings: HashicorpSettings, agent: Agent, { method, path, token, body, signal }: Call, name = TOKEN): Promise<Answer> {
  const headers: Record<string, string> = { accept: 'application/json', 'x-vault-request': 'true', 'x-vault-token': token.reveal() }
  if (settings.namespace !== undefined) headers['x-vault-namespace'] = settings.namespace
  if (body !== undefined) headers['content-type'] = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
  let answer: Answer
  try {
    const bound = AbortSignal.any([signal, AbortSignal.timeout(LIMITS.vaultRequestMs)])
    const options = { method, headers, dispatcher: agent, signal: bound, ...(body !== undefined && { body: JSON.stringify(body) }) }
    const response = await request(`${settings.address}/v1/${path}`, options)
    const text = await response.body.text()
    answer = { status: response.statusCode, body: parseJson(text) }
  } catch (error) {
    // Its message alone: what undici holds of the request has the token in it.
    throw unavailable(name, `${settings.address} did not answer: ${codeOf(error)}`, {
      hint: 'is the address right, and its certificate of an authority that is trusted?',
    })
  }
  const { status } = answer
  // A redirect is never followed: it would take the token along.
  if (status >= 300 && status < 400)
    throw unavailable(name, `${settings.address} redirects`, { hint: 'name the active server, or the load balancer, as its address' })
  if (status === 403)
    throw unavailable(name, `${settings.address} refuses the token, or the token may not use this path`, {
      hint: 'look at the token, its policies and the namespace',
    })
  if (status >= 500 || status === 429)
    throw unavailable(name, `${settings.address} answers with status ${status}`, {
      hint: status === 503 ? 'it is sealed, or in maintenance' : 'try again later',
    })
  return answer
}

function valueOf(name: string, source: Source, answer: Answer): Secret {
  const version = Version.safeParse(answer.body)
  const metadata = version.data?.data.metadata
  if (metadata?.destroyed === true || (metadata?.deletion_time ?? '') !== '') throw missing(name, source, 'this version was deleted')
  if (answer.status === 404) throw missing(name, source, 'there is no such secret')
  const fields = parse(Version, answer, name).data.data ?? {}
  const value = Object.hasOwn(fields, source.field) ? fields[source.field] : undefined
  if (value === undefined) throw missing(name, source, 'the secret has no such field')
  if (typeof value !== 'string') throw unavailable(name, `the field of ${describeSource(source)} is no text`)
  return checkedSecret(name, value)
}

function expectDone(source: Source, { status }: Answer): void {
  if (status === 200 || status === 204) return
  throw unavailable(describeSource(source), `the change was refused with status ${status}`, {
    hint:
      status === 405
        ? 'changing single fields needs Vault 1.9 or newer'
        : status === 400
          ? 'another writer was faster, or the store asks for a version with each write'
          : 'the token needs "patch" and "create" on this path',
  })
}

function refuseVersion(source: Source, what: string): void {
  if (source.version === undefined) return
  throw new SallyportError('provider_cannot', `${describeSource(source)}: a version that exists is not ${what}`, {
    hint: 'leave out "?version="',
  })
}

function dataPath({ mount, path }: Source): string {
  return [mount, 'data', ...path.split('/')].map(encodeURIComponent).join('/')
}

function parse<T>(shape: z.ZodType<T>, { status, body }: Answer, name: string): T {
  const { data } = shape.safeParse(body)
  if (status !== 200 || data === undefined) {
    throw unavailable(name, `the answer of Vault, status ${status}, is not as expected`, {
      hint: 'is the store a key-value store of version 2?',
    })
  }
  return data
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function missing(name: string, source: Source, why: string): SallyportError {
  return new SallyportError('secret_missing', `secret ${name}: ${describeSource(source)}: ${why}`, { hint: 'look with: vault kv get' })
}

function unavailable(name: string, why: string, options: { hint?: string } = {}): SallyportError {
  return new SallyportError('secret_unavailable', `the secret ${name} could not be obtained (${why})`, options)
}
