import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { request } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { freezeLayers } from '../../src/controller/sessions/frozen-layers.ts'
import { cleanEnvironment } from '../support/command.ts'
import { layerSetting, ruleText } from '../support/layers.ts'
import { countingSystem } from '../support/leases.ts'
import { MAIN } from '../support/main-file.ts'
import { enterOwnNetwork } from '../support/own-network.ts'

// The sidecar's ports are fixed, and this machine may use them.
await enterOwnNetwork(import.meta.filename)

/** The code and the rule that a request at the proxy is refused with. */
async function refusal(host: string): Promise<string> {
  const asked = request({ host: '127.0.0.1', port: 3128, path: `http://${host}/`, headers: { host } })
  asked.end()
  const [response] = (await once(asked, 'response')) as [AsyncIterable<Buffer>]
  let text = ''
  for await (const piece of response) text += piece.toString()
  const { code, rule = 'none' } = JSON.parse(text) as { code: string; rule?: string }
  return `${code} ${rule}`
}

async function logged(child: ChildProcess, message: string): Promise<void> {
  assert.ok(child.stderr)
  for await (const line of createInterface({ input: child.stderr })) if (line.includes(`"${message}`)) return
  assert.fail(`it never said "${message}"`)
}

test('I29 a sidecar enforces the frozen layers, a restricted one included, and takes what is swapped in behind their names', async () => {
  using setting = layerSetting({
    'home/policies/global.yaml': `${ruleText('web', '*.example.com', 'allow')}extends: [service/npm]\n`,
    'home/policies/service/npm.yaml': ruleText('npm', 'packages.example.org', 'deny'),
    'workspace/.sallyport/policy.yaml': ruleText('first', 'first.example.com', 'deny'),
  })
  const into = join(setting.dir, 'frozen')
  const freeze = async (seed: string) =>
    freezeLayers(await setting.layers(), { policyDirs: [join(setting.home, 'policies')], into }, countingSystem(seed))
  const { files, restricted, policyDirs } = await freeze('one')
  const at = (names: readonly string[]): string => names.map((name) => join(into, name)).join(':')
  const child = spawn(process.execPath, [MAIN, 'sidecar'], {
    env: {
      ...cleanEnvironment(setting.dir),
      SALLYPORT_SIDECAR_IP: '127.0.0.2',
      SALLYPORT_SUBNET: '127.0.0.0/8',
      SALLYPORT_POLICY: at(files),
      SALLYPORT_POLICY_RESTRICTED: at(restricted),
      SALLYPORT_POLICY_DIRS: at(policyDirs),
      SALLYPORT_AUDIT: join(setting.dir, 'audit.jsonl'),
      SALLYPORT_CA_DIR: join(setting.dir, 'ca'),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  try {
    await once(child.stdout, 'data')
    assert.equal(await refusal('first.example.com'), 'denied_by_rule workspace:first')
    assert.equal(await refusal('packages.example.org'), 'denied_by_rule npm')
    setting.write('workspace/.sallyport/policy.yaml', ruleText('second', 'second.example.com', 'deny'))
    await freeze('two')
    await logged(child, 'reloaded')
    assert.equal(await refusal('second.example.com'), 'denied_by_rule workspace:second')
    assert.notEqual(await refusal('first.example.com'), 'denied_by_rule workspace:first')
  } finally {
    child.kill()
    await once(child, 'exit')
  }
})
