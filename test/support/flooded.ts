import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Secret } from '../../src/kernel/secret.ts'
import { commandSetting } from './executor.ts'
import { perform } from '../../src/controller/executor/executor.ts'

/** Runs a script that prints without an end until 100 MB came, and prints how much more memory this took at most. */
await using setting = await commandSetting()
const secrets = [new Secret('TOKEN', 'a-value-that-is-looked-for'), new Secret('OTHER', 'another-one-0123456789')]
const before = process.memoryUsage.rss()
const controller = new AbortController()
let [bytes, most] = [0, 0]
await using prepared = await setting.prepare({ argv: ['bash', '-c', process.argv[2] ?? ''] })
const result = await perform(prepared, {
  secrets,
  signal: controller.signal,
  onOutput: async (_, chunk) => {
    bytes += chunk.length
    most = Math.max(most, process.memoryUsage.rss() - before)
    if (bytes > 100e6) controller.abort()
  },
})
const folder = join(setting.home, 'output')
const files = await Promise.all((await readdir(folder).catch(() => [])).map(async (name) => (await stat(join(folder, name))).size))
console.log(
  JSON.stringify({
    rssBytes: most,
    printed: bytes,
    kept: Buffer.byteLength(result.stdout) + Buffer.byteLength(result.stderr),
    spilled: files.reduce((sum, size) => sum + size, 0),
    code: result.code,
  }),
)
