import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { bundleInto, GATE_ENV, GATE_FLAGS } from '../../scripts/build.ts'
import { SAMPLE_ENV, samplePolicy, SAMPLE_WAYS } from '../../scripts/sample-gate.ts'
import { INITIALIZE, MCP_ACCEPTS } from '../support/mcp.ts'
import { exec } from '../support/pki.ts'
import { readProject } from '../support/tree.ts'

const CODE_CACHE = new URL('../../src/cli/code-cache.ts', import.meta.url).href
const home = mkdtempSync(path.join(tmpdir(), 'sallyport-bundle-'))
const dist = path.join(home, 'dist')
before(() => bundleInto(dist))
after(() => rmSync(home, { recursive: true, force: true }))

for (const { how, prepare } of [
  { how: 'with its code cache', prepare: () => undefined },
  { how: 'with a code cache that is none', prepare: () => writeFileSync(path.join(dist, 'main.cache'), 'x'.repeat(4096)) },
  { how: 'without its code cache', prepare: () => rmSync(path.join(dist, 'main.cache')) },
]) {
  test(`the bundle opens every way in ${how}, decides, and writes nothing beside itself`, async () => {
    prepare()
    const files = contentsOf(dist)
    const policy = path.join(home, 'policy.yaml')
    writeFileSync(policy, samplePolicy())
    const gate = spawn(process.execPath, [...GATE_FLAGS, path.join(dist, 'sallyport.js'), 'proxy', '--policy', policy, ...SAMPLE_WAYS], {
      env: { PATH: process.env['PATH'], SALLYPORT_HOME: home, ...SAMPLE_ENV },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const ended = once(gate, 'exit')
    try {
      const [line] = (await Promise.race([once(gate.stdout, 'data'), ended.then(() => ['{}'])])) as [Buffer]
      const ready = JSON.parse(line.toString()) as Record<string, unknown>
      assert.deepEqual(
        ['http', 'socks', 'transparent', 'dns', 'gateway'].filter((way) => ready[way] === undefined),
        [],
      )
      assert.equal((await fetch(`http://${String(ready['gateway'])}/healthz`)).status, 200)
      // What is loaded for the first request that needs it is in there too.
      const headers = { 'content-type': 'application/json', accept: MCP_ACCEPTS }
      const begun = await fetch(`http://${String(ready['gateway'])}/mcp`, { method: 'POST', headers, body: JSON.stringify(INITIALIZE) })
      assert.match(await begun.text(), /"name":"sallyport"/)
    } finally {
      gate.kill()
    }
    assert.deepEqual(await ended, [0, null])
    assert.deepEqual(contentsOf(dist), files)
  })
}

for (const flags of [GATE_FLAGS, []])
  test(`V8 takes the code of the bundle from its cache, started with ${flags.join(' ') || 'no flags'}`, async () => {
    if (!existsSync(path.join(dist, 'main.cache'))) await bundleInto(dist)
    const code = `import(${JSON.stringify(CODE_CACHE)}).then((made) => console.log(made.compileMain(${JSON.stringify(dist)}).isCached))`
    assert.equal((await exec(process.execPath, [...flags, '-e', code])).stdout.trim(), 'true')
  })

test('the image starts the gate with the flags that its code was cached with', () => {
  const entry = /^ENTRYPOINT (\[.*sallyport\.js"\])$/m.exec(readProject('Dockerfile'))?.[1]
  assert.deepEqual(JSON.parse(entry ?? '[]'), ['node', ...GATE_FLAGS, '/opt/sallyport/dist/sallyport.js'])
})

test('the image tells malloc what was measured', () => {
  const text = readProject('Dockerfile')
  for (const [name, value] of Object.entries(GATE_ENV)) assert.match(text, new RegExp(`^(?:ENV |    ).*\\b${name}=${value}\\b`, 'm'))
})

function contentsOf(folder: string): unknown {
  return ['main.js', 'host.js', 'sallyport.js', 'package.json', 'main.cache'].map((name) => {
    try {
      return readFileSync(path.join(folder, name), 'latin1')
    } catch {
      return undefined
    }
  })
}
