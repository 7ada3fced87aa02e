export { decideHostCommand, nameRule, type HostCommandDecision } from './decide.ts'
export { exactPattern } from './tokens.ts'
