import { Agent, request } from 'undici'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { Secret } from '../../kernel/secret.ts'
import { substituteReferences } from '../providers/references.ts'
import { urlProblem } from './settings.ts'

export type ResolveSecret = (key: string, signal: AbortSignal) => Promise<Secret>

/** Where a notice goes. Everything may have references to secrets in it. */
export type Target = {
  readonly url: string
  /** Behind the URL, each encoded as one segment, or as it is where it begins with "?". */
  readonly path?: readonly string[]
  readonly headers?: Readonly<Record<string, string>>
}

export type Call = { readonly body?: unknown; readonly signal: AbortSignal; readonly timeMaxMs?: number }

/** One client for all notices. What it throws has no URL, header or answer in it: each may have a secret. */
export type Poster = AsyncDisposable & {
  /** The body of the answer. @throws notice_failed */
  send(target: Target, call: Call): Promise<string>
  /** A text with its secrets in their places. @throws notice_failed */
  fill(text: string, signal: AbortSignal): Promise<Secret>
}

export function openPoster(resolve: ResolveSecret): Poster {
  const agent = new Agent({
    // Said here, so that no variable of the environment can take it back.
    connect: { rejectUnauthorized: true, timeout: LIMITS.notifyMs },
    maxResponseSize: LIMITS.notifyAnswerBytesMax,
    connections: 4,
  })
  const fill = async (text: string, signal: AbortSignal): Promise<Secret> => {
    try {
      return await substituteReferences(text, (key) => resolve(key, signal))
    } catch (cause) {
      throw new SallyportError('notice_failed', `a secret of the notice could not be had (${said(cause)})`, { hint: 'sallyport secret ls' })
    }
  }
  return {
    fill,
    async send({ url, path = [], headers = {} }, { body, signal, timeMaxMs = LIMITS.notifyMs }) {
      const bound = AbortSignal.any([signal, AbortSignal.timeout(timeMaxMs)])
      const base = (await fill(url, bound)).reveal()
      const problem = urlProblem(base)
      if (problem !== undefined) throw new SallyportError('notice_failed', `the URL of the notice ${problem}`)
      const segments = await Promise.all(path.map(async (part) => segmentOf((await fill(part, bound)).reveal(), part)))
      const filled: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' }
      for (const [name, value] of Object.entries(headers)) filled[name.toLowerCase()] = (await fill(value, bound)).reveal()
      const payload = body === undefined ? { method: 'GET' as const } : { method: 'POST' as const, body: JSON.stringify(body) }
      try {
        const response = await request(`${base.replace(/\/$/, '')}${segments.join('')}`, {
          ...payload,
          headers: filled,
          dispatcher: agent,
          signal: bound,
        })
        const text = await response.body.text()
        // A redirect is never followed: it would take the secrets along.
        if (response.statusCode >= 200 && response.statusCode < 300) return text
        throw new SallyportError('notice_failed', `the server answered with status ${response.statusCode}`)
      } catch (error) {
        if (error instanceof SallyportError) throw error
        // Its code alone: what undici holds of the request has the secrets in it.
        throw new SallyportError('notice_failed', `the server did not answer (${codeOf(error)})`)
      }
    },
    [Symbol.asyncDispose]: () => agent.destroy(),
  }
}

/** A secret has no say in what is asked of the server. */
function segmentOf(filled: string, written: string): string {
  return written.startsWith('?') ? filled : `/${encodeURIComponent(filled).replaceAll('%3A', ':')}`
}

function said(error: unknown): string {
  return error instanceof SallyportError ? error.code : codeOf(error)
}
