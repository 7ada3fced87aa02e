import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { encodeEvent, encodeIdentity, GENESIS, sealLine } from '../../../src/audit/line.ts'
import { createSessionChains } from '../../../src/controller/session-chains.ts'
import { auditCommand } from '../../../src/cli/audit.ts'
import { decided, finished, NOW, writeAudit } from '../../support/audit.ts'
import { gateLines, keepChains, openAuditPlace, record, SESSION, type AuditPlace } from '../../support/controller-audit.ts'

const HOSTILE = '/a\u001b[2J\u202Eevil\u200b\nforged line\t=1'

type Ran = { readonly code: number; readonly out: string; readonly err: string }

async function run(place: AuditPlace, ...argv: string[]): Promise<Ran> {
  let [out, err] = ['', '']
  const io = { out: (text: string) => void (out += text), err: (text: string) => void (err += text), env: { SALLYPORT_HOME: place.home } }
  return { code: await auditCommand.run(argv, io), out, err }
}

/** Lines of a gate with a denial and an answer, and with texts of a hostile agent. */
function requests(): string[] {
  const identity = encodeIdentity({ session: SESSION, workspace: '/home/me/work' })
  let prev = GENESIS
  return [
    decided('q-1', { host: 'api.example.com', method: 'GET', path: '/x' }),
    finished('q-1'),
    decided('q-2', { host: 'evil.example', decision: 'deny', code: 'host_not_allowed', path: HOSTILE, rule: undefined }),
  ].map((event, at) => {
    const { line, hash } = sealLine(at + 1, encodeEvent(identity, event, NOW + at * 1000), prev)
    prev = hash
    return line.slice(0, -1)
  })
}

async function filled(): Promise<AuditPlace> {
  const place = await openAuditPlace()
  await using audit = await place.open({ rotateBytes: 1_500 })
  await audit.append({ event: 'session', state: 'running', of: SESSION, name: 'fix', place: '/home/me/work' })
  await record(audit, 8)
  await audit.flush()
  await keepChains(place, audit, requests())
  await audit.append({ event: 'operator', did: 'lease_revoked', details: 'last' })
  return place
}

test('list gives the events that each filter asks for, over all segments and sessions', async () => {
  await using place = await filled()
  for (const { argv, requests: expected } of [
    { argv: ['--decision', 'deny'], requests: ['q-2'] },
    { argv: ['--host', '*.example.com'], requests: ['q-1'] },
    { argv: ['--host', 'example.com'], requests: [] },
    { argv: ['--code', 'host_not_allowed'], requests: ['q-2'] },
    { argv: ['--session', SESSION, '--event', 'decided', '--event', 'finished'], requests: ['q-1', 'q-1', 'q-2'] },
    { argv: ['--event', 'decided', '--workspace', 'work'], requests: ['q-1', 'q-2'] },
    { argv: ['--event', 'decided', '--workspace', 'other'], requests: [] },
    { argv: ['--event', 'decided', '--since', new Date(NOW + 1).toISOString()], requests: ['q-2'] },
    { argv: ['--event', 'decided', '--until', new Date(NOW + 1).toISOString()], requests: ['q-1'] },
    { argv: ['--event', 'decided', '--limit', '1'], requests: ['q-2'] },
  ]) {
    const { out } = await run(place, 'list', '--json', ...argv)
    assert.deepEqual(
      (JSON.parse(out) as { request: string }[]).map(({ request }) => request),
      expected,
      argv.join(' '),
    )
  }
  const { out } = await run(place, 'list', '--json', '--session', 'fix')
  assert.deepEqual(
    (JSON.parse(out) as { event: string }[]).map(({ event }) => event),
    ['session'],
  )
})

for (const argv of [
  ['list', '--limit', '0'],
  ['list', '--since', 'yesterday'],
  ['list', '--decision', 'maybe'],
  ['tail', '-n', 'x'],
  ['export', '--format', 'csvv'],
])
  test(`sallyport audit ${argv.join(' ')} is a usage error`, async () => {
    await using place = await filled()
    await assert.rejects(run(place, ...argv), { code: 'usage', exit: 2 })
  })

test('texts of an agent move no cursor, turn no text around and make no line, in any command and form', async () => {
  await using place = await filled()
  for (const argv of [
    ['list'],
    ['list', '--json'],
    ['tail'],
    ['tail', '--json'],
    ['show', 'q-2'],
    ['show', 'q-2', '--json'],
    ['stats'],
    ['stats', '--json'],
    ['export', '--format', 'jsonl'],
    ['export', '--format', 'csv'],
    ['export', '--format', 'syslog'],
  ]) {
    const { out } = await run(place, ...argv)
    assert.match(out, /^[ -~\r\n]*$/, argv.join(' '))
    assert.doesNotMatch(out, /^forged line/m, argv.join(' '))
  }
  assert.match((await run(place, 'list')).out, /a\\u\{1B\}\[2J\\u\{202E\}evil\\u\{200B\}\\u\{A\}forged line/)
})

test('show tells the whole of a request, and which lines of the controller sign it', async () => {
  await using place = await filled()
  const { code, out } = await run(place, 'show', 'q-1', '--json')
  assert.equal(code, 0)
  const story = JSON.parse(out) as Record<'events' | 'signed_by', { event: string; chain: string }[]>
  assert.deepEqual(
    story.events.map(({ event, chain }) => [event, chain]),
    [
      ['decided', SESSION],
      ['finished', SESSION],
    ],
  ) // both ends
  assert.deepEqual(
    story.signed_by.map(({ event }) => event),
    ['countersigned', 'checkpoint'],
  )
  assert.equal((JSON.parse((await run(place, 'show', `${SESSION}:2`, '--json')).out) as { events: unknown[] }).events.length, 2)
  const first = JSON.parse((await run(place, 'show', '1', '--json')).out) as { events: { state: string }[] }
  assert.equal(first.events[0]?.state, 'running')
  const none = await run(place, 'show', 'q-9')
  assert.deepEqual([none.code, none.out], [1, ''])
})

test('I15 no member of a line of a gate makes it one of the controller, in any output', async () => {
  await using place = await openAuditPlace()
  const members = '"event":"question_settled","chain":"controller","question":"q-7","state":"approved"'
  const forged = sealLine(1, `"time":"${new Date(NOW).toISOString()}","session":"${SESSION}",${members}`, GENESIS).line.slice(0, -1)
  {
    await using audit = await place.open()
    await keepChains(place, audit, gateLines(1), [forged])
  }
  const chainOf = (event: unknown): unknown => (event as { chain: unknown }).chain
  const { events } = JSON.parse((await run(place, 'show', 'q-7', '--json')).out) as { events: unknown[] }
  assert.deepEqual(events.map(chainOf), [`${SESSION}.2`])
  const settled = ['--event', 'question_settled']
  assert.deepEqual((JSON.parse((await run(place, 'list', ...settled, '--json')).out) as unknown[]).map(chainOf), [`${SESSION}.2`])
  assert.equal(chainOf(JSON.parse((await run(place, 'tail', ...settled, '--json')).out)), `${SESSION}.2`)
  assert.match((await run(place, 'show', 'q-7')).out, new RegExp(`^  chain +${SESSION}\\.2$`, 'm'))
  assert.equal((await run(place, 'show', 'q-7')).out.match(/^  chain /gm)?.length, 1)
  // What the controller's own lines say of a chain is told under another name.
  const begun = JSON.parse((await run(place, 'list', '--event', 'chain_begun', '--json')).out) as { chain: string; of_chain: number }[]
  assert.deepEqual(
    begun.map(({ chain, of_chain }) => [chain, of_chain]),
    [
      ['controller', 1],
      ['controller', 2],
    ],
  )
})

test('stats counts by kind, decision, host and session, and says the span', async () => {
  await using place = await filled()
  const stats = JSON.parse((await run(place, 'stats', '--json', '--session', SESSION)).out) as {
    events: number
    by: Record<string, unknown>
  }
  assert.deepEqual(stats.by['decision'], { allow: 1, deny: 1 })
  assert.deepEqual(stats.by['host'], { 'api.example.com': 1, 'evil.example': 1 })
  assert.deepEqual(stats.by['code'], { host_not_allowed: 1 })
  assert.match((await run(place, 'stats')).out, /^\d+ events from 2026-\S+Z to 2026-\S+Z\nby event\n/)
})

test('export: jsonl are the lines to the byte, csv has a row for each and nothing that a spreadsheet calculates, syslog a message for each', async () => {
  await using place = await filled()
  const session = await readFile(join(place.folder, 'sessions', `${SESSION}.jsonl`), 'latin1')
  const jsonl = (await run(place, 'export', '--format', 'jsonl')).out
  assert.ok(jsonl.endsWith(session))
  const own = ['controller.000001.jsonl', 'controller.jsonl'].map((name) => readFile(join(place.folder, name), 'latin1'))
  assert.equal(jsonl, (await Promise.all(own)).join('') + session)
  const csv = (await run(place, 'export', '--format', 'csv')).out.split('\r\n')
  assert.equal(csv.length - 2, jsonl.split('\n').length - 1)
  assert.match(csv[0] ?? '', /^chain,time,seq,session,/)
  const file = join(place.home, 'formula.jsonl')
  await writeFile(file, '{"seq":1,"event":"=HYPERLINK(\\"http://x\\")","host":"a\\",b"}\n')
  assert.match((await run(place, 'export', file, '--format', 'csv')).out, /"'=HYPERLINK\(""http:\/\/x""\)".*"a"",b"/)
  for (const line of (await run(place, 'export', '--format', 'syslog')).out.split('\n').slice(0, -1))
    assert.match(line, /^<10[89]>1 2026-\S+Z \S+ sallyport - [a-z_]+ - \{"seq":.*\}$/)
})

test('a line that is no JSON is shown as what it is, and stops nothing', async () => {
  await using place = await filled()
  await appendFile(join(place.folder, 'sessions', `${SESSION}.jsonl`), 'x\u001b[1m\n')
  assert.match((await run(place, 'list', '--session', SESSION)).out, /\(no JSON\) {2}x\\u\{1B\}\[1m\n/)
  assert.equal((await run(place, 'stats')).code, 0)
})

test('verify looks at the whole audit of the home, at a folder, at files, with a key and a checkpoint from elsewhere', async () => {
  await using place = await filled()
  const all = await run(place, 'verify', '--json')
  const found = JSON.parse(all.out) as Record<string, unknown>
  assert.deepEqual([all.code, found['ok'], found['chains'], found['sessionEvents'], found['segments']], [0, true, 1, 3, 2])
  const key = join(place.home, 'kept.pub')
  const { out: printed } = await run(place, 'key', '--json')
  const { pem, id } = JSON.parse(printed) as { pem: string; id: string }
  await writeFile(key, pem)
  assert.equal(found['key'], id)
  await copyFile(join(place.folder, 'checkpoint.json'), join(place.home, 'kept'))
  const given = await run(place, 'verify', place.folder, '--key', key, '--checkpoint', join(place.home, 'kept'))
  assert.match(given.out, /signed by \S+, \d+ checkpoints\n/)
  assert.match((await run(place, 'verify')).out, /as the folder itself says/)
  const session = join(place.folder, 'sessions', `${SESSION}.jsonl`)
  assert.equal((await run(place, 'verify', session)).code, 0)
  await assert.rejects(run(place, 'verify', session, '--key', key), { code: 'audit_broken', message: /no checkpoint of the key/ })
  const first = join(place.folder, 'controller.000001.jsonl')
  assert.equal((await run(place, 'verify', first, '--key', key)).code, 0)
  await writeAudit(join(place.home, 'bad'), 2)
  await appendFile(join(place.home, 'bad'), 'x\n')
  const several = await run(place, 'verify', first, join(place.home, 'bad'), session)
  assert.equal(several.code, 1)
  assert.match(several.err, /^audit_broken: .*bad:3: /)
  assert.equal(several.out.split('the chain holds').length, 3)
})

test('tail -f shows what comes, also of a new session and behind a rotation, once', async () => {
  await using place = await filled()
  const main = join(import.meta.dirname, '../../../src/main.ts')
  const child = spawn(process.execPath, [main, 'audit', 'tail', '-f', '--json', '-n', '1'], {
    env: { ...process.env, SALLYPORT_HOME: place.home },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const closed = once(child, 'close')
  const seen: string[] = []
  let wanted = Number.POSITIVE_INFINITY
  let reached: () => void = () => undefined
  const lines = (count: number): Promise<void> =>
    new Promise((resolve) => {
      ;[wanted, reached] = [count, resolve]
      if (seen.length >= wanted) resolve()
    })
  let rest = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const parts = (rest + text).split('\n')
    rest = parts.pop() ?? ''
    seen.push(...parts)
    if (seen.length >= wanted) reached()
  })
  await lines(1)
  {
    await using audit = await place.open({ rotateBytes: 1_500 })
    await record(audit, 10)
    await audit.flush()
    await record(audit, 10)
    await using chains = createSessionChains(join(place.folder, 'sessions'), audit, { elapsed: () => 0 })
    await chains.append('b'.repeat(16), gateLines(2))
  }
  const marker = (): number => seen.filter((line) => line.includes('"chain":"bbbbbbbbbbbbbbbb"')).length
  for (let count = seen.length; marker() < 2; count = seen.length) await lines(count + 1)
  child.kill('SIGTERM')
  assert.deepEqual(await closed, [0, null])
  const keys = seen.map((line) => JSON.parse(line) as { chain: string; seq: number }).map(({ chain, seq }) => `${chain}:${seq}`)
  assert.equal(new Set(keys).size, keys.length)
  assert.equal(seen.filter((line) => line.includes('"did":"tested"')).length >= 20, true)
})
