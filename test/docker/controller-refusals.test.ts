import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { homeLabel } from '../../src/controller/sessions/session-names.ts'
import { capture } from '../../scripts/steps.ts'
import { openDaemonPlace, type DaemonPlace, type DaemonProcess } from '../support/daemon-command.ts'

let place: DaemonPlace
let daemon: DaemonProcess
let workspace: string

before(async () => {
  place = openDaemonPlace()
  workspace = await place.workspace('work')
  daemon = await place.startDaemon()
})

after(async () => {
  await daemon[Symbol.asyncDispose]()
  await place[Symbol.asyncDispose]()
})

for (const { what, argv, policy, code, pattern } of [
  { what: 'an image that is not there', argv: ['--image', 'sallyport/none:0'], code: 1, pattern: /^image_missing: .*sallyport\/none:0/m },
  {
    what: 'a privileged container',
    policy: 'session: {privileged: true}\n',
    code: 2,
    pattern: /^(?:policy_invalid|config_prohibited): .*privileged/m,
  },
  {
    what: 'the engine’s socket',
    policy: 'session: {mounts: ["/var/run/docker.sock:/x"]}\n',
    code: 2,
    pattern: /^(?:policy_invalid|config_prohibited): .*mounts/m,
  },
  { what: 'a harness that there is not', argv: ['--harness', 'none'], code: 2, pattern: /^usage: /m },
  { what: 'a workspace with the controller’s home in it', argv: ['--workspace', '..'], code: 2, pattern: /^workspace_refused: /m },
  {
    what: 'a workspace that is the controller’s home',
    argv: ['--workspace', '../home/.sallyport'],
    code: 2,
    pattern: /^workspace_refused: /m,
  },
  { what: 'a workspace that is not there', argv: ['--workspace', 'nowhere'], code: 2, pattern: /^config_invalid: .*nowhere/m },
] as const)
  test(`${what} starts nothing, leaves nothing, and the error says what to do`, async () => {
    const found = await everything()
    const file = join(place.home, '..', 'session.yaml')
    place.write(file, `version: 1\n${policy ?? ''}`)
    const folder = argv?.[0] === '--workspace' ? join(workspace, argv[1]) : workspace
    const rest = argv?.[0] === '--workspace' ? [] : (argv ?? [])
    const result = await place.run(['up', '--detach', '--workspace', folder, ...(policy === undefined ? [] : ['--policy', file]), ...rest])
    assert.match(result.stderr, pattern)
    assert.match(result.stderr, /^hint: ./m)
    assert.equal(result.code, code)
    assert.equal(result.stdout, '')
    assert.deepEqual(await everything(), found)
  })

/** Of this home: what is in the engine, in its folders, and listed. */
async function everything(): Promise<unknown> {
  const label = `label=sallyport.home=${homeLabel(place.home)['sallyport.home']}`
  const lists = await Promise.all(
    [
      ['ps', '-aq'],
      ['network', 'ls', '-q'],
      ['volume', 'ls', '-q'],
    ].map((verb) => capture('docker', [...verb, '--filter', label])),
  )
  const folders = ['s', 'sessions'].flatMap((name) => readdirSync(join(place.home, name)))
  return [lists.map(({ stdout }) => stdout), folders, await place.must(['ls', '--json'])]
}
