import type { Content } from './body.ts'
import { CONNECT_FLAGS, GRPC_FLAGS, Messages } from './messages.ts'
import { ScrubbedBytes, type ScrubPlan } from './plan.ts'

/** How a body of this type is looked into. @param type Content-Type without parameters, in lower case */
export function openContent(plan: ScrubPlan, type: string): Content {
  const bytes = new ScrubbedBytes(plan)
  // The base64 of application/grpc-web-text is text like any other.
  if (/^application\/grpc(?:-web)?(?:\+|$)/.test(type)) return new Messages(bytes, GRPC_FLAGS)
  if (type.startsWith('application/connect+')) return new Messages(bytes, CONNECT_FLAGS)
  // Server-sent events need no more: nothing that is looked for goes on over the blank line behind an event, so none is held back.
  return bytes
}
