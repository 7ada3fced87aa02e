import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { syslogMessage, verifyAuditFolder } from '../../../src/audit/audit.ts'
import { createCopy, openCopies, type Receiver } from '../../../src/controller/record/copies.ts'
import { openHomeAudit } from '../../../src/controller/record/home-audit.ts'
import { openOtlp, otlpLogs } from '../../../src/controller/record/otlp.ts'
import { readAuditSettings, type CopyTarget } from '../../../src/controller/record/settings.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { system } from '../../../src/kernel/system.ts'
import { decided, recordingLog, temporaryFolder } from '../../support/audit.ts'
import { gateLines, record } from '../../support/controller-audit.ts'

const SYSLOG = /^<10[89]>1 2026-\S+Z \S+ sallyport \d+ [a-z_]+ - (\{"seq":.*\})$/

/** Octet counting of RFC 6587. */
function framesOf(text: string): string[] {
  const frames: string[] = []
  for (let rest = text; rest !== '';) {
    const [head = '', length] = /^(\d+) /.exec(rest) ?? []
    if (length === undefined) throw new Error(`no frame: ${rest.slice(0, 40)}`)
    frames.push(rest.slice(head.length, head.length + Number(length)))
    rest = rest.slice(head.length + Number(length))
  }
  return frames
}

async function copied(target: CopyTarget, lines: readonly string[]): Promise<void> {
  await using copies = openCopies([target], recordingLog().log)
  copies.accept(`${lines.join('\n')}\n`)
}

async function streamReceiver(listen: (server: Server) => void) {
  let text = ''
  const closed: Promise<unknown>[] = []
  const server = createServer((socket: Socket) => {
    closed.push(once(socket, 'close'))
    socket.setEncoding('latin1').on('data', (piece: string) => void (text += piece))
  })
  listen(server)
  await once(server, 'listening')
  return {
    server,
    async frames() {
      await Promise.all(closed)
      return framesOf(text)
    },
    [Symbol.asyncDispose]: async () => void (await new Promise((resolve) => server.close(resolve))),
  }
}

const lines = gateLines(700)

for (const by of ['tcp', 'unix'] as const)
  test(`a receiver of syslog by ${by} gets each line once, in order, as a message of RFC 5424`, async () => {
    await using folder = await temporaryFolder()
    const path = join(folder.path, 'log.sock')
    await using receiver = await streamReceiver((server) => void (by === 'tcp' ? server.listen(0, '127.0.0.1') : server.listen(path)))
    const { port } = receiver.server.address() as AddressInfo
    await copied(by === 'tcp' ? { kind: 'syslog', by, host: '127.0.0.1', port } : { kind: 'syslog', by, path }, lines)
    assert.deepEqual(
      (await receiver.frames()).map((frame) => SYSLOG.exec(frame)?.[1]),
      lines,
    )
  })

test('a receiver of syslog by UDP gets a datagram for each line, and a long one is cut', async () => {
  const socket = createSocket('udp4').bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const got: string[] = []
  const all = new Promise<void>((resolve) => {
    socket.on('message', (message) => {
      got.push(message.toString('latin1'))
      if (got.length === 3) resolve()
    })
  })
  const long = (lines[0] ?? '').replace('api.example.com', 'x'.repeat(20_000))
  await copied({ kind: 'syslog', by: 'udp', host: '127.0.0.1', port: socket.address().port }, [lines[0] ?? '', long, lines[1] ?? ''])
  await all
  socket.close()
  assert.deepEqual([SYSLOG.exec(got[0] ?? '')?.[1], SYSLOG.exec(got[2] ?? '')?.[1]], [lines[0], lines[1]])
  assert.equal(got[1]?.length, LIMITS.auditSyslogBytesMax)
})

test('a receiver of OTLP gets each line as a record, and a batch again that it was too busy for', async () => {
  const bodies: {
    resourceLogs: { scopeLogs: { logRecords: { timeUnixNano: string; severityText: string; body: { stringValue: string } }[] }[] }[]
  }[] = []
  let answers = 0
  const server = createHttpServer((request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (piece: string) => void (text += piece))
    request.on('end', () => {
      answers += 1
      if (answers > 1) bodies.push(JSON.parse(text) as (typeof bodies)[number])
      response.writeHead(answers === 1 ? 503 : 200, { 'content-type': 'application/json' }).end('{}')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await copied({ kind: 'otlp', url: `http://127.0.0.1:${port}/v1/logs` }, lines)
  server.close()
  const records = bodies.flatMap(({ resourceLogs }) =>
    resourceLogs.flatMap(({ scopeLogs }) => scopeLogs.flatMap(({ logRecords }) => logRecords)),
  )
  assert.deepEqual(
    records.map(({ body }) => body.stringValue),
    lines,
  )
  assert.equal(records[0]?.timeUnixNano, '1767323045678000000')
  assert.equal(
    bodies.every(({ resourceLogs }) => (resourceLogs[0]?.scopeLogs[0]?.logRecords.length ?? 0) <= LIMITS.auditCopyBatchLinesMax),
    true,
  )
})

test('a gate writes no line for which a receiver of OTLP would refuse those of others that come with it', () => {
  const times = ['-000001-01-01T00:00:00.000Z', '+275760-09-13T00:00:00.000Z', '+999999-01-01T00:00:00.000Z', '1969-12-31T23:59:59.999Z']
  const hostile = times.map((time) => `{"seq":1,"time":"${time}","session":"s","event":"decided","host":"\\ud800x"}`)
  const text = otlpLogs(hostile)
  const nanos = [...text.matchAll(/"timeUnixNano":"([^"]*)"/g)].map(([, value = '']) => value)
  assert.equal(nanos.length, times.length)
  // A fixed64, and text that is Unicode.
  for (const value of nanos) assert.ok(/^\d+$/.test(value) && BigInt(value) < 2n ** 64n, value)
  assert.doesNotMatch(text, /(?<!\\)\\ud[89a-f]/i)
  assert.match(text, /\uFFFDx/)
  // RFC 5424 §6.2.3: a year has four digits.
  assert.deepEqual(
    hostile.map((line) => syslogMessage(line, 'h', 1).split(' ')[1]),
    ['-', '-', '-', times[3]],
  )
})

test('what stands in the query of a receiver, as a token, is in no log', () => {
  const { name } = openOtlp({ kind: 'otlp', url: 'http://127.0.0.1:9/v1/logs?key=canary-1f9#canary-1f9' })
  assert.equal(name, 'otlp http://127.0.0.1:9/v1/logs')
})

test('a receiver that takes nothing costs a bounded memory: the oldest lines are left out of the copy, which is said', async () => {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const sent: string[] = []
  const receiver: Receiver = {
    name: 'held',
    async send(batch) {
      await released
      sent.push(...batch)
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }
  const recorded = recordingLog()
  const copy = createCopy(receiver, recorded.log)
  const text = 'x'.repeat(1023)
  const count = Math.ceil((1.5 * LIMITS.auditCopyQueueBytesMax) / 1024)
  for (let n = 0; n < count; n += 1) copy.accept(`${text}\n`)
  release()
  await copy[Symbol.asyncDispose]()
  assert.ok(sent.length * 1024 <= LIMITS.auditCopyQueueBytesMax)
  const said = recorded.lines.find(({ message }) => message === 'audit: the copy goes on')
  assert.equal(Number(said?.fields['lost']) + sent.length, count)
})

test('the record of a home goes on at once, whole and signed, while its copy has nobody who takes it', async () => {
  await using folder = await temporaryFolder()
  await mkdir(join(folder.path, 'audit', 'sessions'), { recursive: true })
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  await writeFile(
    join(folder.path, 'audit.yaml'),
    `version: 1\ncopy:\n  - syslog: tcp://127.0.0.1:${port}\n  - otlp: http://127.0.0.1:${port}/v1/logs\n`,
  )
  const recorded = recordingLog()
  {
    await using audit = await openHomeAudit(folder.path, () => false, system, recorded.log)
    await record(audit, 5_000)
    await audit.append(decided('last'))
  }
  assert.ok((await verifyAuditFolder(join(folder.path, 'audit'))).events > 5_000)
  assert.equal(recorded.lines.filter(({ message }) => message.startsWith('audit: a copy is not taken')).length, 2)
})

for (const { text, problem } of [
  { text: 'version: 2\n', problem: /:1: version: / },
  { text: 'version: 1\nretention_days: 89\n', problem: /:2: retention_days: / },
  { text: 'version: 1\ncopy:\n  - syslog: https://x\n', problem: /:3: copy\.0: must be "tcp:/ },
  { text: 'version: 1\ncopy:\n  - syslog: udp://127.0.0.1:70000\n', problem: /:3: copy\.0: / },
  { text: 'version: 1\ncopy:\n  - otlp: ftp://x\n', problem: /:3: copy\.0: must be a URL/ },
  { text: 'version: 1\ncopy:\n  - otlp: "http://user:word@x/"\n', problem: /:3: copy\.0: must be a URL/ },
  { text: 'version: 1\nretention: 400\n', problem: /Unrecognized key|retention/ },
  { text: 'version: [\n', problem: /not valid YAML/ },
])
  test(`audit.yaml with ${JSON.stringify(text)} is refused with its line`, async () => {
    await using folder = await temporaryFolder()
    const file = join(folder.path, 'audit.yaml')
    await writeFile(file, text)
    assert.throws(
      () => readAuditSettings(file),
      (error: Error & { code: string }) => {
        assert.equal(error.code, 'config_invalid')
        assert.doesNotMatch(error.message, /word/)
        return problem.test(error.message)
      },
    )
  })

test('audit.yaml gives the days and the places; without one it is kept as long as it must be', async () => {
  await using folder = await temporaryFolder()
  const file = join(folder.path, 'audit.yaml')
  assert.deepEqual(readAuditSettings(file), { retentionDays: LIMITS.auditRetentionMinMs / 86_400_000, copies: [] })
  await writeFile(file, 'version: 1\nretention_days: 400\ncopy:\n  - syslog: "udp://[::1]:514"\n  - syslog: unix:/run/log.sock\n')
  assert.deepEqual(readAuditSettings(file), {
    retentionDays: 400,
    copies: [
      { kind: 'syslog', by: 'udp', host: '::1', port: 514 },
      { kind: 'syslog', by: 'unix', path: '/run/log.sock' },
    ],
  })
})
