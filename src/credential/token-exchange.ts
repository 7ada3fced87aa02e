import { createHash } from 'node:crypto'
import { SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { Secret } from '../kernel/secret.ts'
import type { System } from '../kernel/system.ts'
import type { TokenExchange } from '../wire/credential.ts'

/** What a token server answered, its body as it came. */
export type TokenAnswer = { readonly status: number; readonly contentType: string | undefined; readonly body: Buffer }

/**
 * Sends a form to a token server, once and nowhere else. `headers` are name, value, …; `addresses` are the refused ranges that
 * the server may have. Nothing of form, headers or answer is in its errors. @throws a coded error when there is no whole answer
 */
export type TokenPost = (url: string, headers: readonly string[], form: string, addresses: readonly string[]) => Promise<TokenAnswer>

/** What an exchange is made with: the credential's own secret, and with `refresh_token` the client's password, if it has one. */
export type ExchangeSecrets = { readonly secret: Secret; readonly clientSecret?: Secret }

export type TokenExchanges = {
  /**
   * An access token, from memory until shortly before it expires. Whoever asks while one is fetched gets that one. `key` is the
   * credential's id. Another exchange or other secrets under the same key begin anew, so this outlives replacements of the policy.
   * @throws token_exchange_failed
   */
  get(key: string, exchange: TokenExchange, secrets: ExchangeSecrets): Promise<Secret>
  /**
   * Values that token servers gave for this credential, the newest first, at most `LIMITS.formerSecretsMax`. The same array for
   * as long as nothing is added.
   */
  known(key: string): readonly Secret[]
  /** Has no token any more, nor those that are fetched right now. */
  forget(): void
}

/** One exchange as it stands. `refresh` is the token that the server gave in place of the configured one. */
type State = {
  token?: { readonly secret: Secret; readonly renewAt: number; readonly expiresAt: number }
  refresh?: Secret
  running?: Promise<Secret>
  failed?: { readonly error: SallyportError; readonly until: number }
}

/** RFC 6749 §5.2. Any other word in an answer may be anything, a secret as well. */
const OAUTH_ERRORS = new Set([
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'unauthorized_client',
  'unsupported_grant_type',
  'invalid_scope',
])

/** Holds tokens in memory only: a refresh token that replaced the configured one is forgotten with the process. */
export function createTokenExchanges(post: TokenPost, system: Pick<System, 'now'>): TokenExchanges {
  const states = new Map<string, State>()
  const minted = new Map<string, readonly Secret[]>()
  let forgotten = 0

  function stateOf(id: string): State {
    const state = states.get(id) ?? {}
    states.delete(id) // moves it to the young end
    states.set(id, state)
    if (states.size > LIMITS.tokenExchangesMax) {
      const idle = [...states].find(([other, { running }]) => other !== id && running === undefined)
      if (idle) states.delete(idle[0])
    }
    return state
  }

  function remember(key: string, values: readonly Secret[]): void {
    const before = minted.get(key) ?? []
    const fresh = values.filter((value) => !before.some((old) => old.equals(value)))
    minted.delete(key)
    minted.set(key, [...fresh, ...before].slice(0, LIMITS.formerSecretsMax))
    if (minted.size > LIMITS.tokenExchangesMax) minted.delete(minted.keys().next().value ?? '')
  }

  async function fetchToken(state: State, key: string, exchange: TokenExchange, secrets: ExchangeSecrets): Promise<Secret> {
    const [asked, before] = [system.now(), forgotten]
    const { headers, form } = writeRequest(exchange, { ...secrets, ...(state.refresh && { secret: state.refresh }) })
    let answer: TokenAnswer
    try {
      answer = await post(exchange.tokenUrl, headers, form, exchange.addresses)
    } catch (error) {
      throw failedBy(key, error)
    }
    if (before !== forgotten) throw failed(key, 'its secrets were taken back meanwhile')
    const granted = readAnswer(answer, key)
    const rotated = exchange.grant === 'refresh_token' ? granted.refresh : undefined
    // Known before it is used: what is not known yet is not found in answers.
    remember(key, rotated ? [granted.access, rotated] : [granted.access])
    if (rotated) state.refresh = rotated
    const life = Math.min(granted.lifeMs, LIMITS.tokenLifeMaxMs)
    const expiresAt = asked + life
    state.token = { secret: granted.access, expiresAt, renewAt: expiresAt - Math.min(LIMITS.tokenRenewalMs, life / 2) }
    return granted.access
  }

  async function renew(state: State, key: string, exchange: TokenExchange, secrets: ExchangeSecrets): Promise<Secret> {
    try {
      return await fetchToken(state, key, exchange, secrets)
    } catch (error) {
      const failure = error instanceof SallyportError ? error : failed(key, 'the exchange broke')
      state.failed = { error: failure, until: system.now() + LIMITS.tokenPauseMs }
      // A server that says no has not merely been out of reach: the token that is left is not for use either.
      if (error instanceof Denied) delete state.token
      const left = usable(state, system.now())
      if (left) return left
      throw failure
    }
  }

  return {
    async get(key, exchange, secrets) {
      const state = stateOf(`${key} ${fingerprint(exchange, secrets)}`)
      if (state.token && system.now() < state.token.renewAt) return state.token.secret
      // One request renews it; the others go on with what they have.
      if (state.running) return usable(state, system.now()) ?? state.running
      if (state.failed && system.now() < state.failed.until) return usable(state, system.now()) ?? Promise.reject(state.failed.error)
      delete state.failed
      state.running = renew(state, key, exchange, secrets).finally(() => delete state.running)
      return state.running
    },
    known: (key) => minted.get(key) ?? NONE,
    forget() {
      forgotten += 1
      states.clear()
      minted.clear()
    },
  }
}

/** The token that may be due for renewal, but is not expired. */
function usable({ token }: State, nowMs: number): Secret | undefined {
  return token && nowMs < token.expiresAt ? token.secret : undefined
}

const NONE: readonly Secret[] = []

/** The same for as long as nothing of the exchange changes, the values of its secrets included. */
function fingerprint(exchange: TokenExchange, { secret, clientSecret }: ExchangeSecrets): string {
  return createHash('sha256')
    .update(JSON.stringify([exchange, secret.reveal(), clientSecret?.reveal()]))
    .digest('hex')
}

/** RFC 6749 §4.4.2, §6 with the client's proof of §2.3.1. */
function writeRequest(exchange: TokenExchange, { secret, clientSecret }: ExchangeSecrets): { headers: string[]; form: string } {
  const { grant, clientId, scope, parameters, authentication } = exchange
  const password = grant === 'client_credentials' ? secret : clientSecret
  const fields = new URLSearchParams(parameters)
  fields.set('grant_type', grant)
  if (grant === 'refresh_token') fields.set('refresh_token', secret.reveal())
  if (scope !== undefined) fields.set('scope', scope)
  const headers = ['content-type', 'application/x-www-form-urlencoded', 'accept', 'application/json']
  if (password && authentication === 'basic') {
    const pair = `${formEncoded(clientId)}:${formEncoded(password.reveal())}`
    headers.push('authorization', `Basic ${Buffer.from(pair).toString('base64')}`)
  } else {
    // §3.2.1: a client without a password names itself all the same.
    fields.set('client_id', clientId)
    if (password) fields.set('client_secret', password.reveal())
  }
  return { headers, form: fields.toString() }
}

/** RFC 6749 appendix B. */
function formEncoded(text: string): string {
  return new URLSearchParams([['', text]]).toString().slice(1)
}

type Granted = { readonly access: Secret; readonly refresh: Secret | undefined; readonly lifeMs: number }

/** RFC 6749 §5.1. No message has a word of the answer in it but an error of §5.2: the rest may be a token. */
function readAnswer({ status, contentType, body }: TokenAnswer, key: string): Granted {
  if (body.length > LIMITS.tokenAnswerBytesMax) throw failed(key, `the token server answered more than ${LIMITS.tokenAnswerBytesMax} bytes`)
  const fields = /^application\/(?:[\w.+-]+\+)?json[ \t]*(?:;|$)/i.test(contentType ?? '') ? parseObject(body) : undefined
  if (status !== 200) {
    const word = fields?.get('error')
    const known = typeof word === 'string' && OAUTH_ERRORS.has(word) ? word : undefined
    const message = `the token server answered ${status}${known === undefined ? '' : `, ${known}`}`
    throw known === undefined ? failed(key, message) : new Denied(...wordsOf(key, message))
  }
  if (!fields) throw failed(key, 'the answer of the token server is not JSON')
  const type = fields.get('token_type')
  // §7.1: a token of a type that is not understood must not be used.
  if (typeof type !== 'string' || type.toLowerCase() !== 'bearer') throw failed(key, 'the token server gave no token_type, or not Bearer')
  const access = tokenIn(fields.get('access_token'), `access token of ${key}`)
  if (!access) throw failed(key, 'the token server gave no access_token that can be sent')
  const given = fields.get('refresh_token')
  const refresh = tokenIn(given, `refresh token of ${key}`)
  if (given !== undefined && given !== null && given !== '' && !refresh)
    throw failed(key, 'the token server gave a refresh_token that cannot be sent')
  const lifeMs = lifeOf(fields.get('expires_in'))
  if (lifeMs === undefined) throw failed(key, 'the token server gave an expires_in that is no time ahead')
  return { access, refresh, lifeMs }
}

/** Nothing of what a parser says is passed on: its messages quote the text. */
function parseObject(body: Buffer): Map<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'))
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? new Map(Object.entries(value)) : undefined
  } catch {
    return undefined
  }
}

/** RFC 6750 §2.1 and RFC 6749 appendix A.17 have less: visible ASCII is what no header is broken by. A shorter one could not be told from text. */
function tokenIn(value: unknown, name: string): Secret | undefined {
  if (typeof value !== 'string' || !/^[\x21-\x7e]+$/.test(value)) return undefined
  return value.length >= LIMITS.secretCharsMin && value.length <= LIMITS.tokenBytesMax ? new Secret(name, value) : undefined
}

/** Seconds, as a number or, from some servers, as its digits. */
function lifeOf(value: unknown): number | undefined {
  if (value === undefined || value === null) return LIMITS.tokenLifeDefaultMs
  const seconds = typeof value === 'string' && /^\d{1,12}$/.test(value) ? Number(value) : value
  return typeof seconds === 'number' && Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : undefined
}

function failed(key: string, why: string): SallyportError {
  return new SallyportError(...wordsOf(key, why))
}

function wordsOf(key: string, why: string): ['token_exchange_failed', string, { hint: string }] {
  return [
    'token_exchange_failed',
    `no access token for the credential ${key}: ${why}`,
    { hint: 'the operator checks oauth2 and the secret of this credential' },
  ]
}

function failedBy(key: string, error: unknown): SallyportError {
  const why = error instanceof SallyportError ? `${error.message} (${error.code})` : 'the token server could not be asked'
  return new SallyportError('token_exchange_failed', `no access token for the credential ${key}: ${why}`, {
    ...(error instanceof SallyportError && error.hint !== undefined && { hint: error.hint }),
    cause: error,
  })
}

/** The token server's own no (RFC 6749 §5.2). */
class Denied extends SallyportError {}
