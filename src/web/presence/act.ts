import { call, Problem, type Verb } from '../api/client.ts'
import { prove } from './prove.ts'

/**
 * Calls what the daemon may want a proof of presence for, and asks for it then. `does` says in words what it is for.
 * @throws Problem; DOMException `AbortError` when the operator leaves the dialog
 */
export async function act<T>(verb: Verb, path: string, body: Readonly<Record<string, unknown>>, does: string): Promise<T> {
  try {
    return await call<T>(verb, path, body)
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== 'presence_required') throw error
  }
  return await prove<T>({
    does,
    ways: () => call('POST', '/v1/presence/challenge', { method: verb, path, body }),
    send: (proof) => call<T>(verb, path, { ...body, proof }),
  })
}
