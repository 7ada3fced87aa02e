/**
 * Secrets by handle: an agent asks for one by its name, and has a command run with it, without ever having the value.
 */
export { createHandleBook, type HandleBook } from './handle-book.ts'
export { secretRequest, type SecretRequestParts } from './secret-request.ts'
export { secretUse, type SecretUseParts } from './secret-use.ts'
