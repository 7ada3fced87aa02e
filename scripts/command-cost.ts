import { spawn } from 'node:child_process'
import { perform, sandboxOf } from '../src/controller/executor/executor.ts'
import { Secret } from '../src/kernel/secret.ts'
import { commandSetting } from '../test/support/executor.ts'

/**
 * What the executor adds to the time from an approval to the first byte: `node scripts/command-cost.ts [ROUNDS]` prints the median and the
 * ninth decile of both in milliseconds, by turns, so that other load falls on both.
 */
const rounds = Number(process.argv[2] ?? 40)

await using setting = await commandSetting()
await setting.write('workspace/tool.sh', '#!/bin/sh\necho x\n')
const secrets = Array.from({ length: 20 }, (_, i) => new Secret(`S${i}`, `value-${i}-0123456789abcdef`))

async function bare(argv: readonly string[]): Promise<number> {
  const begun = performance.now()
  const child = spawn(argv[0] as string, argv.slice(1), { cwd: setting.workspace, stdio: ['ignore', 'pipe', 'ignore'], detached: true })
  const first = Promise.withResolvers<number>()
  child.stdout.once('data', () => first.resolve(performance.now() - begun))
  const [ms] = await Promise.all([first.promise, new Promise((resolve) => void child.once('close', resolve))])
  return ms
}

async function ours(argv: readonly string[], sandbox: boolean): Promise<number> {
  await using prepared = await setting.prepare({ argv, sandbox, secrets })
  const begun = performance.now()
  let first: number | undefined
  await perform(prepared, {
    secrets,
    signal: new AbortController().signal,
    onOutput: async () => void (first ??= performance.now() - begun),
  })
  return first ?? Number.NaN
}

function at(values: readonly number[], part: number): string {
  return (values.toSorted((a, b) => a - b)[Math.floor(values.length * part)] ?? Number.NaN).toFixed(1)
}

for (const [argv, sandbox] of [
  [['git', '--version'], false],
  [['node', '--version'], false],
  [['./tool.sh'], false],
  [['sh', 'tool.sh'], false],
  [['./tool.sh'], true],
  [['git', '--version'], true],
] as const) {
  if (sandbox && sandboxOf() === 'none') continue
  const [without, with_]: [number[], number[]] = [[], []]
  for (let i = 0; i < rounds; i++) {
    without.push(await bare(argv))
    with_.push(await ours(argv, sandbox))
  }
  const name = `${argv.join(' ')}${sandbox ? ' (sandbox)' : ''}`
  console.log(`${name.padEnd(26)} bare ${at(without, 0.5)} / ${at(without, 0.9)}   executor ${at(with_, 0.5)} / ${at(with_, 0.9)}`)
}
