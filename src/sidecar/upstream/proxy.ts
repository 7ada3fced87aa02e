import { SallyportError } from '../../kernel/errors.ts'

/** A proxy of the operator. */
export type UpstreamProxy = { readonly url: URL }

/** @throws config_invalid */
export function parseUpstreamProxy(text: string): UpstreamProxy {
  throw new SallyportError('config_invalid', `upstream proxies are not carried yet (${text.length} characters)`)
}
