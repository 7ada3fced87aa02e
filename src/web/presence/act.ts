import { call, type Verb } from '../api/client.ts'

/** Calls what the daemon may want a proof of presence for, and asks for it then. `does` says in words what it is for. */
export async function act<T>(verb: Verb, path: string, body: Readonly<Record<string, unknown>>, _does: string): Promise<T> {
  return await call<T>(verb, path, body)
}
