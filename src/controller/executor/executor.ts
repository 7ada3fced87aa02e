/**
 * Runs host commands, each exactly as it was shown and once. It decides nothing: what is prepared is asked about elsewhere.
 */
export { redactorOf } from './joint-redaction.ts'
export { collect, printedOf } from './output.ts'
export { perform, type CommandResult, type PerformOptions } from './perform.ts'
export { agentFolders, type Place } from './place.ts'
export { prepare, type Prepared } from './prepare.ts'
export { sandboxOf } from './sandbox.ts'
