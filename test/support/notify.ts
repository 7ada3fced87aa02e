import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { openNotify, type NotifyParts } from '../../src/controller/notify/notify.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { system } from '../../src/kernel/system.ts'
import type { Answer, PresenceEvidence, Question, QuestionEvent, Subject } from '../../src/wire/question.ts'
import { temporaryFolder } from './audit.ts'
import { keptLog, noPrompt } from './presence.ts'
import { openPresence } from '../../src/controller/presence/presence.ts'

export const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex')

export function questionOf(change: Partial<Omit<Question, 'subject'>> & { argv?: readonly string[]; subject?: Subject } = {}): Question {
  const { argv = ['gh', 'pr', 'view', '7'], ...rest } = change
  const file = { path: `/usr/bin/${argv[0]}`, device: '1', inode: '2', sizeBytes: 3, sha256: 'a'.repeat(64) }
  return {
    id: 'q-0011223344556677',
    digest: digestOf(argv.join('\0')),
    state: 'pending',
    createdAt: system.now(),
    expiresAt: system.now() + 30_000,
    asker: { session: 's-1', sessionName: 'web', workspace: '/w', agent: 'claude' },
    subject: {
      kind: 'command',
      argv: [...argv],
      executable: file,
      scripts: [],
      cwd: { path: '/w', device: '1', inode: '9' },
      environment: {},
      secrets: [],
      sandbox: 'none',
    },
    reason: 'the agent says that this was approved already',
    risk: { level: 'safe', reasons: [] },
    tier: 'T0',
    ...rest,
  }
}

/** Questions that wait, as approvals keep them: what is answered is answered once, by its digest. */
export class Desk {
  readonly answered: { readonly id: string; readonly answer: Answer; readonly evidence: PresenceEvidence }[] = []
  readonly #questions = new Map<string, Question>()
  #events: QuestionEvent[] = []
  #more = Promise.withResolvers<void>()

  ask(...questions: readonly Question[]): void {
    for (const question of questions) {
      this.#questions.set(question.id, question)
      this.#events.push({ kind: 'asked', question })
    }
    this.#more.resolve()
  }

  settle(id: string): void {
    this.#events.push({ kind: 'settled', question: this.get(id) })
    this.#more.resolve()
  }

  get(id: string): Question {
    const question = this.#questions.get(id)
    if (question === undefined) throw new SallyportError('internal', `there is no question ${id}`)
    return question
  }

  async answer(id: string, answer: Answer, evidence: PresenceEvidence): Promise<Question> {
    const question = this.get(id)
    if (question.state !== 'pending' || question.digest !== answer.digest) throw new SallyportError('presence_failed', 'it is settled')
    const settled: Question = { ...question, state: answer.decision === 'allow' ? 'approved' : 'denied' }
    this.#questions.set(id, settled)
    this.answered.push({ id, answer, evidence })
    this.settle(id)
    return settled
  }

  async *watch(_kind: 'notify', signal: AbortSignal): AsyncGenerator<QuestionEvent> {
    const gone = Promise.withResolvers<void>()
    signal.addEventListener('abort', () => gone.resolve(), { once: true })
    while (!signal.aborted) {
      yield* this.#events.splice(0)
      if (this.#events.length > 0) continue
      this.#more = Promise.withResolvers<void>()
      await Promise.race([this.#more.promise, gone.promise])
    }
  }
}

/** Pauses that end when the test says so. */
export class Pauses {
  readonly asked: number[] = []
  #open: (() => void)[] = []

  readonly wait = (ms: number, signal: AbortSignal): Promise<void> => {
    this.asked.push(ms)
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#open.push(resolve)
    signal.addEventListener('abort', () => resolve(), { once: true })
    // One that was aborted before says so no more.
    if (signal.aborted) resolve()
    return promise
  }

  end(): void {
    for (const resolve of this.#open.splice(0)) resolve()
  }
}

export type Received = {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

/** A server on loopback that keeps what it is sent. */
export async function receiver(
  answer: (request: Received) => { status?: number; body?: string; headers?: Record<string, string> } = () => ({}),
) {
  const received: Received[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const one = { method: request.method ?? '', url: request.url ?? '', headers: request.headers, body: Buffer.concat(chunks).toString() }
      received.push(one)
      const { status = 200, body = '{"ok":true,"result":[]}', headers = {} } = answer(one)
      response.writeHead(status, headers).end(body)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    received,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    json: (at: number): Record<string, unknown> => JSON.parse(received[at]?.body ?? 'null') as Record<string, unknown>,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** Notices by a file of settings. `secrets` are those of the operator's vault. */
export async function notifying(yaml: string, options: { secrets?: Record<string, string>; parts?: Partial<NotifyParts> } = {}) {
  const { secrets = {}, parts = {} } = options
  const all = new AsyncDisposableStack()
  const { path: home } = all.use(await temporaryFolder())
  await writeFile(join(home, 'notify.yaml'), yaml)
  const log = keptLog()
  const desk = new Desk()
  const pauses = new Pauses()
  const presence = await openPresence({ home, system, log, audit: async () => undefined, systemPrompt: noPrompt })
  const notify = await openNotify({
    home,
    approvals: desk,
    attest: (means, of) => presence.attest(means, of),
    resolveSecret: (key) =>
      secrets[key] === undefined
        ? Promise.reject(new SallyportError('secret_missing', `there is no secret ${key}`))
        : Promise.resolve(new Secret(key, secrets[key])),
    redact: (_session, text) => text.replaceAll('canary-of-the-session', '[secret]'),
    environment: { PATH: process.env['PATH'], HOME: home, SALLYPORT_LEASE: 'canary-lease' },
    system,
    log,
    wait: pauses.wait,
    ...parts,
  })
  all.use(notify)
  return { home, log, desk, pauses, presence, channels: notify.channels, [Symbol.asyncDispose]: () => all.disposeAsync() }
}
