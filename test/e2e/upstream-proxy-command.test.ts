/** `--upstream-proxy` and its other two ways, on the command line. */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../support/audit.ts'
import { runProgram, startProxy } from '../support/command.ts'
import { MAIN } from '../support/main-file.ts'
import { bodyOf, exchangeRaw } from '../support/raw-client.ts'
import { openHttpProxy } from '../support/upstream-proxies.ts'
import { openUpstream } from '../support/upstream.ts'

const PASSWORD = 'office-canary-51c7'

for (const { how, args = () => [], env = () => ({}), isInArguments = false } of [
  { how: 'by the flag', args: (url: string) => ['--upstream-proxy', url], isInArguments: true },
  { how: 'by the environment', env: (url: string) => ({ SALLYPORT_UPSTREAM_PROXY: url }) },
  { how: 'by the flag that names a file', args: (_url: string, file: string) => ['--upstream-proxy', `file:${file}`] },
  { how: 'by the environment that names a file', env: (_url: string, file: string) => ({ SALLYPORT_UPSTREAM_PROXY: `file:${file}` }) },
] as {
  how: string
  args?: (url: string, file: string) => string[]
  env?: (url: string, file: string) => Record<string, string>
  isInArguments?: boolean
}[]) {
  test(`an upstream proxy named ${how} carries what leaves, and its password is in nothing that is printed or recorded`, async () => {
    await using folder = await temporaryFolder()
    await using office = await openHttpProxy({ login: `me:${PASSWORD}` })
    await using upstream = await openUpstream()
    const url = `http://me:${PASSWORD}@127.0.0.1:${office.port}`
    const file = join(folder.path, 'proxy-url')
    writeFileSync(file, `${url}\n`)
    await using proxy = await startProxy({
      policy: `version: 1\nnetwork:\n  rules:\n    - {id: a, host: 127.0.0.1, ports: [${upstream.port}], action: allow, addresses: ["127.0.0.0/8"]}\n`,
      args: args(url, file),
      env: env(url, file),
    })
    const host = `127.0.0.1:${upstream.port}`
    const answer = await exchangeRaw(proxy.port, `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
    assert.match(bodyOf(answer), /ok/)
    assert.equal(office.asked.length, 1)
    const argv = readFileSync(`/proc/${proxy.child.pid}/cmdline`, 'latin1')
    assert.equal(argv.includes(PASSWORD), isInArguments)
    const { stdout, stderr } = await proxy.stop('SIGTERM')
    assert.ok(!(stdout + stderr + readFileSync(proxy.ready.audit, 'utf8') + answer).includes(PASSWORD))
  })
}

for (const { what, value } of [
  { what: 'a file that is not there', value: 'file:/nowhere/at-all' },
  { what: 'a scheme that is none of a proxy', value: `ftp://me:${PASSWORD}@127.0.0.1:1` },
]) {
  test(`${what} for the upstream proxy ends the command with config_invalid, without the password`, async () => {
    await using folder = await temporaryFolder()
    const policy = join(folder.path, 'p.yaml')
    writeFileSync(policy, 'version: 1\n')
    const argv = [process.execPath, MAIN, 'proxy', '--policy', policy, '--http', '127.0.0.1:0', '--upstream-proxy', value]
    const { code, stderr } = await runProgram(argv, { PATH: process.env['PATH'] ?? '', SALLYPORT_HOME: folder.path })
    assert.equal(code, 2)
    assert.match(stderr, /^config_invalid: /)
    assert.ok(!stderr.includes(PASSWORD))
  })
}
