export { decideHostCommand, type HostCommandDecision } from './decide.ts'
export { exactPattern } from './tokens.ts'
