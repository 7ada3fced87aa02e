import { createInterface } from 'node:readline'
import { identityOf, openPresence } from '../../src/controller/presence/presence.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { system } from '../../src/kernel/system.ts'
import type { PresenceProof } from '../../src/wire/question.ts'
import { keptLog, purpose } from './presence.ts'

/**
 * A daemon's presence in a process of another user: HOME. Says its own identity, then answers each line, a
 * proof and a number for the question, with what came of it. An empty line breaks off what is being asked.
 */
const [, , home = ''] = process.argv
const presence = await openPresence({ home, system, log: keptLog(), audit: async () => undefined })
const say = (line: unknown): void => void process.stdout.write(`${JSON.stringify(line)}\n`)
let gone = new AbortController()

say({ ...identityOf(process.pid), available: presence.available })
for await (const line of createInterface({ input: process.stdin })) {
  if (line === '') {
    gone.abort()
    gone = new AbortController()
  } else {
    const { proof, digest } = JSON.parse(line) as { proof: PresenceProof; digest: string }
    void presence.prove('T2', proof, purpose({ digest }), gone.signal).then(
      (evidence) => say({ evidence }),
      (error: unknown) =>
        say(error instanceof SallyportError ? { code: error.code, message: error.message, hint: error.hint } : { fault: String(error) }),
    )
  }
}
