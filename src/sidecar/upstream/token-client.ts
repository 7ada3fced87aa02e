import type { Duplex } from 'node:stream'
import type { TokenAnswer, TokenPost } from '../../credential/credential.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { formatAuthority, isHostname, parseHostname, type Hostname } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { parseAddressRange, type AllowedRule, type Policy } from '../../policy/policy.ts'
import { valuesOf } from '../../wire/credential-fields.ts'
import type { Addresses } from './addresses.ts'
import type { Upstream, UpstreamController, UpstreamHandler, UpstreamRequest } from './upstream.ts'
import type { Upstreams } from './upstreams.ts'

export type TokenClientParts = {
  /** What is in force: it judges addresses, and its generation is that of the connections. */
  readonly enforcement: () => { readonly policy: Policy; readonly generation: number }
  readonly addresses: Addresses
  readonly upstreams: Upstreams
  /** Ends what runs, and lets nothing begin, when the gate stops. */
  readonly signal?: AbortSignal
}

/** What is refused for a token server, and how its operator opens it. */
const RULE = 'oauth2'
const PORT = 443

/**
 * Asks token servers, over the same judged addresses, verified TLS and upstream proxy as requests, on connections that carry
 * nothing else. A redirect is an answer like any other: what it names is never asked. Its promises reject with address_refused,
 * name_refused, upstream_* and overloaded, or token_exchange_failed for an answer that is too large or too late.
 */
export function createTokenClient({ enforcement, addresses, upstreams, signal }: TokenClientParts): TokenPost {
  return async (url, headers, form, ranges) => {
    const { host, port, path } = readUrl(url)
    const where = formatAuthority(host, port, PORT)
    const late = new AbortController()
    const timer = setTimeout(
      () => late.abort(new SallyportError('token_exchange_failed', `${where} gave no whole answer in time`)),
      LIMITS.tokenExchangeMs,
    )
    const stop = signal ? AbortSignal.any([signal, late.signal]) : late.signal
    try {
      stop.throwIfAborted()
      const { policy, generation } = enforcement()
      const judged = await before(stop, addresses.judge(policy, host, port, ruleFor(ranges)))
      if ('code' in judged) {
        throw new SallyportError(judged.code, judged.message, { hint: 'if it is meant, the operator lists it in addresses of oauth2' })
      }
      // I7: no id of a credential has a space.
      const pool = upstreams.pool({ scheme: 'https', host, port, ...judged, credential: `token ${url}`, generation })
      const body = Buffer.from(form)
      return await exchange(pool, stop, where, {
        method: 'POST',
        path,
        headers: ['host', where, ...headers, 'accept-encoding', 'identity', 'content-length', `${body.length}`],
        body,
        sensitive: ['authorization'],
      })
    } finally {
      clearTimeout(timer)
    }
  }
}

function readUrl(text: string): { host: Hostname; port: number; path: string } {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const host = parseHostname(url?.hostname ?? '')
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '' || !isHostname(host))
    throw new SallyportError('token_exchange_failed', 'the URL of the token server is not one of https')
  return { host, port: url.port === '' ? PORT : Number(url.port), path: `${url.pathname}${url.search}` }
}

function ruleFor(ranges: readonly string[]): AllowedRule {
  return {
    id: RULE,
    tls: 'intercept',
    upgrade: false,
    plaintext: false,
    // The policy was refused when one of them could not be read.
    addresses: ranges.map(parseAddressRange).filter((range) => typeof range !== 'string'),
    plane: 'agent',
    scrub: 'replace',
    ownCredentials: undefined,
  }
}

/** What the promise gives, or the signal's reason if that comes first. */
async function before<T>(signal: AbortSignal, promise: T | Promise<T>): Promise<T> {
  const stopped = Promise.withResolvers<never>()
  const stop = (): void => stopped.reject(signal.reason as Error)
  signal.addEventListener('abort', stop)
  try {
    return await Promise.race([promise, stopped.promise])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

function exchange(pool: Upstream, signal: AbortSignal, where: string, request: UpstreamRequest): Promise<TokenAnswer> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason as Error)
      return
    }
    const taker = new Taker(signal, where, resolve, reject)
    try {
      pool.dispatch(request, taker)
    } catch (error) {
      taker.fail(error)
    }
  })
}

/** Takes one answer, of bounded length. */
class Taker implements UpstreamHandler {
  readonly #signal: AbortSignal
  readonly #where: string
  readonly #resolve: (answer: TokenAnswer) => void
  readonly #reject: (error: Error) => void
  readonly #chunks: Buffer[] = []
  #controller: UpstreamController | undefined
  #status = 0
  #interim = 0
  #contentType: string | undefined
  #bytes = 0

  constructor(signal: AbortSignal, where: string, resolve: (answer: TokenAnswer) => void, reject: (error: Error) => void) {
    this.#signal = signal
    this.#where = where
    this.#resolve = resolve
    this.#reject = reject
    signal.addEventListener('abort', this.#onAbort)
  }

  onRequestStart(controller: UpstreamController): void {
    this.#controller = controller
    if (this.#signal.aborted) controller.abort(this.#signal.reason as Error)
  }

  onBodySent(): void {}

  onRequestSent(): void {}

  /** Was not asked for. */
  onRequestUpgrade(_controller: UpstreamController, _status: number, socket: Duplex): void {
    socket.destroy()
    this.fail(new SallyportError('token_exchange_failed', `${this.#where} answered with another protocol`))
  }

  onResponseStart(controller: UpstreamController, status: number): void {
    if (status < 200) {
      this.#interim += 1
      if (this.#interim > LIMITS.interimAnswersMax) this.#stop(controller, 'sent too many interim answers')
      return
    }
    this.#status = status
    this.#contentType = contentTypeOf(controller)
  }

  onResponseData(controller: UpstreamController, chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#bytes > LIMITS.tokenAnswerBytesMax) this.#stop(controller, `answered more than ${LIMITS.tokenAnswerBytesMax} bytes`)
    else this.#chunks.push(chunk)
  }

  onResponseEnd(): void {
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#resolve({ status: this.#status, contentType: this.#contentType, body: Buffer.concat(this.#chunks) })
  }

  onResponseError(_controller: UpstreamController, error: Error): void {
    this.fail(error)
  }

  fail(error: unknown): void {
    this.#signal.removeEventListener('abort', this.#onAbort)
    if (error instanceof SallyportError) this.#reject(error)
    else
      this.#reject(
        new SallyportError('upstream_unreachable', `the connection to ${this.#where} broke (${codeOf(error)})`, { cause: error }),
      )
  }

  #stop(controller: UpstreamController, why: string): void {
    const error = new SallyportError('token_exchange_failed', `${this.#where} ${why}`)
    this.fail(error)
    controller.abort(error)
  }

  /** At once, whatever it waits for: a connection that is never made has no controller to be told. */
  readonly #onAbort = (): void => {
    const reason = this.#signal.reason as Error
    this.fail(reason)
    this.#controller?.abort(reason)
  }
}

/** The one that it names. */
function contentTypeOf({ rawHeaders }: UpstreamController): string | undefined {
  const found = valuesOf(rawHeaders, 'content-type')
  return found.length === 1 ? found[0] : undefined
}
