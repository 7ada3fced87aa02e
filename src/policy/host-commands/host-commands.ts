export { decideHostCommand, nameRule, type HostCommandDecision } from './decide.ts'
export { exactPattern, readPattern } from './tokens.ts'
export { workspaceFolder } from './folders.ts'
