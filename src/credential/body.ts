// Stands in until bodies are written to: whatever comes is refused.
import { SallyportError } from '../kernel/errors.ts'
import type { Secret } from '../kernel/secret.ts'
import type { BodyPlace } from '../wire/credential.ts'

export function setInBody(_body: Buffer, _contentType: string | undefined, _at: BodyPlace, _secret: Secret): Buffer {
  throw new SallyportError('body_unfit', 'not yet')
}

export function swapInBody(
  _body: Buffer,
  _contentType: string | undefined,
  _swaps: readonly { placeholder: string; at: BodyPlace; secret: Secret }[],
): Buffer {
  throw new SallyportError('body_unfit', 'not yet')
}
