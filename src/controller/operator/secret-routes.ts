import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { Secret } from '../../kernel/secret.ts'
import { describeSource, parseSource } from '../../policy/policy.ts'
import { SECRET_KEY, SOURCE_KINDS, type SecretSource } from '../../wire/secret-source.ts'
import type { PresetView, ReferenceOutcome } from '../../wire/secrets.ts'
import type { Providers } from '../providers/providers.ts'
import { providerStatus } from '../providers/status.ts'
import type { SecretDesk } from '../secret-desk.ts'
import { changesOfSecret } from '../secret-history.ts'
import { isDeclared, mappingsOf, type MappingsParts } from '../secret-mappings.ts'
import { applySecrets, type ApplyParts } from '../apply-secrets.ts'
import { read } from './session-routes.ts'

type ByKey = { Params: { key: string } }
const Key = z.string().regex(SECRET_KEY)
const Text = z.string().max(4_096)
const Description = z.strictObject({
  name: Text.exactOptional(),
  scope: Text.exactOptional(),
  tags: z.array(Text).max(LIMITS.secretTagsMax).exactOptional(),
})
const Storing = Description.extend({
  // Its bytes are counted by the vault.
  value: z.string().max(LIMITS.secretBytesMax + 2),
  seen: z.int().min(0).exactOptional(),
})
const Nothing = z.strictObject({})
const Unlocking = z.strictObject({ passphrase: z.string().min(1).max(LIMITS.passphraseCharsMax).exactOptional() })
const Testing = z.strictObject({ reference: z.string().min(1).max(4_096) })
const Kind = z.enum(SOURCE_KINDS)

export type SecretRoutesParts = ApplyParts &
  MappingsParts & {
    readonly desk: SecretDesk
    readonly presets: () => readonly PresetView[]
    readonly providers: Pick<Providers, 'get'>
    readonly env: Readonly<Record<string, string | undefined>>
    /** Of a HashiCorp Vault, where one is set. */
    readonly vaultAddress?: string | undefined
  }

/** The operator's secrets on the page. Values come in by `PUT`, and go out by `copy` alone. I1, I82 */
export function addSecretRoutes(app: FastifyInstance, parts: SecretRoutesParts): void {
  const { desk } = parts
  app.get('/v1/secrets', () => desk.list())
  app.put<ByKey>('/v1/secrets/:key', async (request) => {
    const key = read(Key, request.params.key)
    const { value, ...wish } = read(Storing, request.body)
    // As the command does with what is piped to it.
    return await desk.set(key, new Secret(key, value.replace(/\r?\n$/, '')), wish, whoOf(request))
  })
  app.patch<ByKey>('/v1/secrets/:key', (request) =>
    desk.describe(read(Key, request.params.key), read(Description, request.body), whoOf(request)),
  )
  app.delete<ByKey>('/v1/secrets/:key', async (request) => {
    read(Nothing, request.body ?? {})
    // One that has a problem may have any key that was written into the file.
    await desk.remove(request.params.key, whoOf(request))
    return {}
  })
  app.post<ByKey>('/v1/secrets/:key/copy', async (request, reply) => {
    const key = read(Key, request.params.key)
    read(Nothing, request.body ?? {})
    const value = await desk.copy(key, whoOf(request))
    return reply.header('cache-control', 'no-store').send({ value: value.reveal() })
  })
  app.get<ByKey>('/v1/secrets/:key/mappings', ({ params }) => mappingsOf(read(Key, params.key), parts))
  app.get<ByKey>('/v1/secrets/:key/changes', ({ params }) => changesOfSecret(parts.home, read(Key, params.key)))
  app.get('/v1/secret-presets', () => parts.presets())
  app.post('/v1/secrets/apply', (_request, reply) => applySecrets(parts, goneOf(reply)))
  app.post('/v1/vault/unlock', async (request) => {
    const { passphrase } = read(Unlocking, request.body ?? {})
    return await desk.unlock(passphrase === undefined ? undefined : new Secret('passphrase', passphrase), whoOf(request))
  })
  addProviderRoutes(app, parts)
}

function addProviderRoutes(app: FastifyInstance, parts: SecretRoutesParts): void {
  const { desk, env, vaultAddress: address } = parts
  app.get('/v1/providers', async () => providerStatus({ env, vault: (await desk.state()).state, address }))
  app.post<{ Params: { name: string } }>('/v1/providers/:name/test', async ({ params, body }, reply): Promise<ReferenceOutcome> => {
    const kind = read(Kind, params.name)
    const { reference } = read(Testing, body)
    const source = parseSource(reference)
    // What was written may be the value itself: none of it is repeated.
    if (typeof source === 'string' || source.kind !== kind)
      throw new SallyportError('usage', `this is no reference of "${kind}:"`, { hint: 'docs/PROVIDERS.md shows how each is written' })
    const outcome = await outcomeOf(source, parts, goneOf(reply))
    const said = outcome.outcome === 'found' ? 'found' : outcome.code
    await parts.audit.append({ event: 'operator', did: 'provider_tested', details: `${describeSource(source)}: ${said}` })
    return outcome
  })
}

/** The value is looked for and let go of. */
async function outcomeOf(source: SecretSource, parts: SecretRoutesParts, signal: AbortSignal): Promise<ReferenceOutcome> {
  try {
    // A page that somebody else has in hand must not run whatever it names: what a policy names runs anyway.
    if (source.kind === 'exec' && !isDeclared(source, parts))
      throw new SallyportError('provider_cannot', 'no policy has this very command', { hint: 'write it into a policy first' })
    const bound = AbortSignal.any([signal, AbortSignal.timeout(LIMITS.secretExecMs)])
    // The operator may look at secrets of every scope.
    if (source.kind === 'vault') await parts.desk.look(source.key)
    else await parts.providers.get('tested', source, bound)
    return { outcome: 'found' }
  } catch (error) {
    if (!(error instanceof SallyportError))
      return { outcome: 'failed', code: codeOf(error), message: 'it did not answer in time, or failed' }
    const { code, message, hint } = error
    return { outcome: code === 'secret_missing' ? 'not_found' : 'failed', code, message, ...(hint !== undefined && { hint }) }
  }
}

function whoOf({ login }: FastifyRequest): string {
  return login === undefined ? 'the socket' : `the page, login ${login.id}`
}

function goneOf(reply: FastifyReply): AbortSignal {
  const gone = new AbortController()
  reply.raw.on('close', () => gone.abort(new SallyportError('usage', 'nobody waits for it any more')))
  return gone.signal
}
