import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Audit } from '../../audit/audit.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Log } from '../../kernel/log.ts'
import { Secret } from '../../kernel/secret.ts'
import { shown } from '../../kernel/shown.ts'
import { PasskeyLoginRequest, PasswordLoginRequest, type LoginWays } from '../../wire/passkeys.ts'
import type { Presence } from '../presence/presence.ts'
import { goneSignal } from './proofs.ts'
import type { Logins } from './logins.ts'
import { originOf } from './passkey-routes.ts'
import { read } from './session-routes.ts'

export type LoginWaysParts = {
  readonly logins: Logins
  readonly presence: Pick<Presence, 'available' | 'knock' | 'passkeys'>
  readonly audit: Pick<Audit, 'append'>
  readonly log: Log
}

/**
 * I76: How a page is let in without a link: with what its operator set up when a link had let them in. Who calls here is a stranger: anybody on
 * this machine, and no page but ours.
 */
export function addLoginWays(app: FastifyInstance, { logins, presence, audit, log }: LoginWaysParts): void {
  const refusals = new Refusals(audit, log)

  app.get('/v1/login/ways', (): LoginWays => ({ password: presence.available.includes('T1'), passkey: presence.passkeys.isAny() }))
  app.post('/v1/login/password', async (request) => {
    const { password } = read(PasswordLoginRequest, request.body)
    await held(refusals, presence.knock(new Secret('approver password', password)))
    return await begin(request, 'password', 'the password')
  })
  app.post('/v1/login/passkey/challenge', (request) => {
    if (!presence.passkeys.isAny())
      throw new SallyportError('login_required', 'no passkey is registered that could be used', { hint: 'open the page: sallyport open' })
    return presence.passkeys.challenge('login', originOf(request))
  })
  app.post('/v1/login/passkey', async (request, reply) => {
    const { response } = read(PasskeyLoginRequest, request.body)
    const name = await held(refusals, presence.passkeys.verify(response, 'login', goneSignal(reply)))
    return await begin(request, 'passkey', `passkey "${name}"`)
  })

  const begin = async (request: FastifyRequest, way: 'password' | 'passkey', by: string) => {
    const browser = request.headers['user-agent'] ?? ''
    const { id, token } = logins.begin(browser, way)
    try {
      await audit.append({ event: 'operator', did: 'page_login', details: `login ${id} by ${by}: ${shown(browser)}` })
    } catch (error) {
      // What cannot be written down does not happen.
      logins.end(id)
      throw error
    }
    return { id, token, idleMs: LIMITS.loginIdleMs, lifeMs: LIMITS.loginLifeMs }
  }
}

/** A proof that fails is a guess, and counted as one. @throws login_required */
async function held<T>(refusals: Refusals, proof: Promise<T>): Promise<T> {
  try {
    return await proof
  } catch (cause) {
    if (!(cause instanceof SallyportError) || cause.code !== 'presence_failed') throw cause
    await refusals.add(cause.message)
    throw new SallyportError('login_required', cause.message, { ...(cause.hint !== undefined && { hint: cause.hint }), cause })
  }
}

/** In the audit at once, and then together: what strangers can have written has a bound. */
class Refusals {
  readonly #audit: Pick<Audit, 'append'>
  readonly #log: Log
  #count = 0
  #later: NodeJS.Timeout | undefined

  constructor(audit: Pick<Audit, 'append'>, log: Log) {
    this.#audit = audit
    this.#log = log
  }

  async add(why: string): Promise<void> {
    this.#count += 1
    if (this.#later !== undefined) return
    this.#later = setTimeout(() => {
      this.#later = undefined
      if (this.#count > 0)
        void this.#tell('together').catch((error: unknown) =>
          this.#log.error({ cause: codeOf(error) }, 'refused logins could not be recorded'),
        )
    }, LIMITS.loginRefusalsTellMs).unref()
    await this.#tell(why)
  }

  async #tell(why: string): Promise<void> {
    const count = this.#count
    this.#count = 0
    await this.#audit.append({ event: 'operator', did: 'page_login_refused', details: `${count} refused: ${shown(why)}` })
  }
}
