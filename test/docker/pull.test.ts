/** An image that the engine does not have comes from a registry, which is one of ours on loopback: no other is asked. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { capture } from '../../scripts/steps.ts'
import { openDaemonPlace, type DaemonPlace, type DaemonProcess } from '../support/daemon-command.ts'
import { openImageRegistry, type ImageRegistry } from '../support/image-registry.ts'

let place: DaemonPlace
let daemon: DaemonProcess
let registry: ImageRegistry
let workspace: string
const images: string[] = []

/** A program that needs nothing beside it, and enough besides to be a while on its way. */
function image(name: string): string {
  const made = registry.add(name, { ldconfig: readFileSync('/sbin/ldconfig'), ballast: randomBytes(4 * 1024 ** 2) })
  images.push(made)
  return made
}

before(async () => {
  place = openDaemonPlace()
  registry = await openImageRegistry()
  workspace = await place.workspace('work')
  daemon = await place.startDaemon()
})

after(async () => {
  await place.run(['down', '--all'])
  await daemon[Symbol.asyncDispose]()
  for (const name of images) await capture('docker', ['image', 'rm', '--force', name])
  await registry[Symbol.asyncDispose]()
  await place[Symbol.asyncDispose]()
})

test('up fetches the image of the agent, says so in whole lines where there is no terminal, and runs it', async () => {
  const name = image('plain')
  const { code, stdout, stderr } = await place.run([
    'up',
    '--detach',
    '--workspace',
    workspace,
    '--image',
    name,
    '--',
    '/ldconfig',
    '--version',
  ])
  assert.equal(code, 0, stderr)
  const lines = stderr.split('\n').filter((line) => line.includes(name))
  assert.match(lines[0] ?? '', /^· pulling \S+: \d of \d layers, \d\.\d MiB of \d\.\d MiB$/)
  assert.match(lines.at(-1) ?? '', /^· pulled \S+ \([45]\.\d MiB\)$/)
  assert.ok(lines.length <= 4, lines.join('\n'))
  assert.ok(!stderr.includes('\r') && !stderr.includes('\u001B'))
  assert.equal(registry.fetched.length, 1)
  assert.match(await place.must(['logs', stdout.trim()]), /^ldconfig \(/)
})

test('an image that the engine has by now is not fetched again, and nothing is said of it', async () => {
  const { code, stderr } = await place.run([
    'up',
    '--detach',
    '--workspace',
    workspace,
    '--image',
    images[0] ?? '',
    '--',
    '/ldconfig',
    '--version',
  ])
  assert.equal(code, 0, stderr)
  assert.doesNotMatch(stderr, /pull/)
  assert.equal(registry.fetched.length, 1)
})

test('on a terminal the progress is one line that is written over, and what follows begins a line of its own', async () => {
  const name = image('shown')
  const terminal = place.onTerminal(['up', '--workspace', workspace, '--image', name, '--no-selftest', '--', '/ldconfig', '--version'])
  assert.equal(await terminal.exited, 0, terminal.printed())
  const printed = Buffer.from(terminal.printed(), 'latin1').toString('utf8').replaceAll('\u001B[K', '<clear>').replaceAll('\r\n', '\n')
  const [first = '', ...later] = printed.slice(printed.indexOf('· pulling')).split('\r<clear>')
  assert.match(first, /^· pulling [^\n]*$/)
  for (const piece of later.slice(0, -1)) assert.match(piece, /^· pulling [^\n]*$/)
  assert.match(later.at(-1) ?? '', /^· pulled [^\n]* MiB\)\n/)
})

for (const what of ['that its registry does not have', 'whose registry does not answer'] as const) {
  test(`an image ${what} is image_missing with the engine's reason, and nothing is left of the session`, async () => {
    const name = what === 'whose registry does not answer' ? '127.0.0.1:1/none:1' : registry.missing('none')
    const { code, stdout, stderr } = await place.run(['up', '--detach', '--workspace', workspace, '--image', name])
    assert.equal(code, 1)
    assert.equal(stdout, '')
    assert.match(stderr, new RegExp(`^image_missing: .*${name.replaceAll('.', '\\.')}.*\nhint: `, 'm'))
    const sessions = JSON.parse(await place.must(['ls', '--json'])) as { readonly state: string }[]
    assert.ok(sessions.every(({ state }) => state === 'running'))
  })
}
