import assert from 'node:assert/strict'
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fillTemplate } from '../../../bench/configuration.ts'
import { imageEnv, imageFlags } from '../../../bench/gate.ts'
import { gatePolicy } from '../../../bench/gate-policy.ts'
import { loadArguments, parseH2load } from '../../../bench/load.ts'
import { firstVersion } from '../../../bench/machine.ts'
import { MAIN, QUICK, measureOf } from '../../../bench/measures.ts'
import { parseOptions } from '../../../bench/options.ts'
import { MAIN_PEERS, PEERS } from '../../../bench/peers.ts'
import { GATE_ENV } from '../../../scripts/build.ts'
import { loadPolicy } from '../../../src/policy/policy.ts'

const TEMPLATES = join(import.meta.dirname, '../../../bench/conf')
const VALUES = { WORK: '/w', WWW: '/www', PORTS: '247', TOKEN: 't', IPV6: '', ROOT_ONLY: '#', UNPRIVILEGED: 'me', SQUID_CERTGEN: '/gen' }

test('a template is filled in everywhere, and a value that looks like a name stays as it is', () => {
  assert.equal(fillTemplate('a @WORK@/x @WORK@ b@c', { WORK: '$& @WWW@' }), 'a $& @WWW@/x $& @WWW@ b@c')
})

test('a name without a value is an error: a configuration with a hole may still start', () => {
  assert.throws(() => fillTemplate('listen @PORT@', VALUES), /PORT/)
})

test('every template of the project is filled in whole by what set-up knows', async () => {
  for (const name of await readdir(TEMPLATES)) {
    assert.doesNotMatch(fillTemplate(await readFile(join(TEMPLATES, name), 'utf8'), VALUES), /@[A-Z0-9_]+@/, name)
  }
})

for (const size of [
  { rules: 3, credentials: 1 },
  { rules: 200, credentials: 50 },
  { rules: 10_000, credentials: 50 },
]) {
  test(`the gate’s policy of ${size.rules} rules and ${size.credentials} credentials loads, and has so many`, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sallyport-bench-test-'))
    try {
      await writeFile(join(folder, 'policy.yaml'), gatePolicy(size))
      const { effective } = loadPolicy([join(folder, 'policy.yaml')], { policyDirs: [] })
      assert.equal(effective.rules.length, size.rules)
      assert.equal(effective.credentials.length, size.credentials)
    } finally {
      await rm(folder, { recursive: true })
    }
  })
}

test('the gate is started with the flags of the image', async () => {
  const dockerfile = await readFile(join(import.meta.dirname, '../../../Dockerfile'), 'utf8')
  assert.ok(imageFlags(dockerfile).length > 0)
  assert.deepEqual(imageFlags('FROM x\nENTRYPOINT ["node", "--a=1", "--b", "/opt/sallyport/dist/sallyport.js"]\nCMD ["x"]\n'), [
    '--a=1',
    '--b',
  ])
  assert.throws(() => imageFlags('FROM x\nENTRYPOINT []\n'), /ENTRYPOINT/)
  assert.deepEqual(imageEnv(dockerfile), GATE_ENV)
})

test('without a proxy the same load goes straight to the target', () => {
  const { load } = measureOf('mitm64')
  assert.equal(loadArguments(load, undefined).join(' '), load.join(' ').replace('-v connect', '-v direct'))
  assert.deepEqual(loadArguments(load, 8080).slice(-2), ['-p', '127.0.0.1:8080'])
})

test('h2load’s figures are read from what it says and from its log; HTTP/1.1 is no figure', () => {
  const said = 'Application protocol: h2\nfinished in 2.01s, 10250.50 req/s, 12MB/s\nrequests: 20 total, 19 succeeded, 1 failed\n'
  const log = '1\t200\t100\n2\t200\t300\nbroken\n3\t200\t200\n'
  assert.deepEqual(parseH2load(said, log), {
    ok: 19,
    err: 1,
    errors: '1 requests failed',
    rps: 10250.5,
    p50_us: 200,
    p99_us: 300,
    p999_us: 300,
  })
  assert.equal(parseH2load(said.replace('h2', 'http/1.1'), log), undefined)
  assert.equal(parseH2load('', ''), undefined)
})

for (const { text, version } of [
  { text: 'Squid Cache: Version 5.7\n', version: '5.7' },
  { text: 'go version go1.19.8 linux/amd64', version: '1.19.8' },
  { text: 'nothing', version: 'unknown' },
]) {
  test(`the version in ${JSON.stringify(text)} is ${version}`, () => assert.equal(firstVersion(text), version))
}

test('a whole run writes the document; a narrowed one, a quick one and one that is told not to print only', () => {
  const isWriting = (...argv: string[]): boolean => parseOptions(argv, [0, 1]).isWriting
  assert.equal(isWriting(), true)
  assert.equal(isWriting('--full'), true)
  assert.equal(isWriting('--quick'), false)
  assert.equal(isWriting('--measures', 'fwd64'), false)
  assert.equal(isWriting('--peers', 'squid'), false)
  assert.equal(isWriting('--scale'), true)
  assert.equal(isWriting('--scale', 'load'), false)
  assert.equal(isWriting('--soak', '--no-write'), false)
})

test('the command line says what runs', () => {
  const usual = parseOptions([], [2, 5])
  assert.deepEqual([usual.story, usual.runs, usual.proxyCpu, usual.clientCpu], ['compare', 3, '2', '5'])
  assert.deepEqual([usual.measures, usual.peers], [MAIN, MAIN_PEERS])
  assert.deepEqual(parseOptions(['--quick'], [0]).measures, QUICK)
  assert.deepEqual(parseOptions(['--peers', 'none'], [0]).peers, [])
  assert.equal(parseOptions([], [0]).proxyCpu, 'none')
  assert.deepEqual(
    ['--soak', '--soak=60', '--scale', '--profile', '--list', '--help'].map((flag) => parseOptions([flag], [0, 1]).story),
    ['soak', 'soak', 'scale', 'profile', 'list', 'help'],
  )
  assert.equal(parseOptions(['--soak', '60'], [0, 1]).soakSeconds, 60)
  assert.equal(parseOptions(['--soak'], [0, 1]).soakSeconds, 3600)
  assert.deepEqual(parseOptions(['--profile'], [0, 1]).measures, [measureOf('mitm64')])
})

for (const argv of [
  ['--measures', 'fwd65'],
  ['--peers', 'nobody'],
  ['--scale', 'everything'],
  ['--runs', '0'],
  ['--seconds', 'x'],
  ['--what'],
  ['word'],
]) {
  test(`${argv.join(' ')} is refused`, () => assert.throws(() => parseOptions(argv, [0, 1]), { name: 'Error' }))
}

test('every peer of a run exists, and no two of its processes share a port', () => {
  const seen = new Map<number, string>()
  for (const [name, plans] of Object.entries(PEERS)) {
    for (const plan of plans()) {
      for (const port of new Set(Object.values(plan.abilities))) {
        assert.equal(seen.get(port), undefined, `${name} ${port}`)
        seen.set(port, name)
      }
    }
  }
  for (const peer of MAIN_PEERS) assert.ok(PEERS[peer])
})
