import { spawn } from 'node:child_process'
import { once } from 'node:events'

const APPROVALS = new URL('../../src/controller/approvals/approvals.ts', import.meta.url).href
const SUPPORT = new URL('./approvals.ts', import.meta.url).href

/**
 * Runs a controller's queue in a process of its own until it kills itself or ends, and gives what it printed. It has `approvals`, `ask` (a
 * question, waited for), `yes` (an answer to it), `say`, `die` and the helpers of `approvals.ts`.
 */
export async function runChild(file: string, body: string): Promise<{ lines: string[]; signal: NodeJS.Signals | null }> {
  const program = `
import { writeSync } from 'node:fs'
const { openApprovals } = await import(${JSON.stringify(APPROVALS)})
const { allow, deny, evidenceFor, nextEvent, standingClock, wishOf } = await import(${JSON.stringify(SUPPORT)})
const say = (text) => writeSync(1, text + '\\n')
const die = () => process.kill(process.pid, 'SIGKILL')
const clock = standingClock()
const log = { info() {}, warn() {}, error: (_fields, text) => say('error: ' + text) }
let onAudit = async () => {}
const approvals = await openApprovals({ file: process.argv.at(-1), audit: (event) => onAudit(event), system: clock, log })
approvals.watch('terminal', new AbortController().signal)
async function ask(wish = wishOf()) {
  const asked = nextEvent(approvals, 'asked')
  void approvals.ask(wish, new AbortController().signal)
  const question = await asked
  clock.pass(1_000)
  say(question.id + ' ' + question.digest)
  return question
}
const yes = (question) => approvals.answer(question.id, allow(question), evidenceFor(question.digest))
${body}`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, '--', file], { stdio: ['ignore', 'pipe', 'inherit'] })
  const exit = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  let text = ''
  for await (const chunk of child.stdout.setEncoding('utf8')) text += String(chunk)
  const [, signal] = await exit
  return { lines: text.split('\n').slice(0, -1), signal }
}
