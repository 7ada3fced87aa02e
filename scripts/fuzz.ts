import { parseArgs } from 'node:util'
import { fuzz, tryInput, type FuzzTarget } from '../test/support/fuzz.ts'
import { FUZZ_TARGETS } from '../test/support/fuzz-targets.ts'
import { main, SetupError } from './steps.ts'

const USAGE = `usage: node scripts/fuzz.ts [--target dns|hello|socks|all] [--seed N] [--rounds N]
       node scripts/fuzz.ts --target NAME --repro HEX

Tries changed inputs on the readers of bytes that agents send. An input that makes one throw, loop, read differently when it is
cut differently, or answer what must not be answered ends it with exit 1 and the command that tries that input alone.`

await main(async () => {
  const { values } = parseArgs({
    options: {
      target: { type: 'string', default: 'all' },
      seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
      rounds: { type: 'string', default: '100000' },
      repro: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) {
    console.log(USAGE)
    return 0
  }
  const targets = FUZZ_TARGETS.filter(({ name }) => values.target === 'all' || values.target === name)
  if (targets.length === 0)
    throw new SetupError(`--target ${values.target} is not one`, [`it is one of ${FUZZ_TARGETS.map(({ name }) => name).join(', ')}, all`])
  if (values.repro !== undefined) return repro(targets, values.repro)
  return run(targets, wholeNumber('--seed', values.seed), wholeNumber('--rounds', values.rounds))
})

function run(targets: readonly FuzzTarget[], seed: number, rounds: number): number {
  let failed = 0
  for (const target of targets) {
    const began = performance.now()
    const failure = fuzz(target, { seed, rounds })
    const seconds = ((performance.now() - began) / 1_000).toFixed(1)
    if (failure === undefined) {
      console.log(`ok   ${target.name}: ${rounds} rounds, seed ${seed} (${seconds} s)`)
      continue
    }
    failed = 1
    console.log(`FAIL ${target.name}: round ${failure.round}, seed ${seed}: ${failure.problem}`)
    console.log(`     node scripts/fuzz.ts --target ${target.name} --repro ${failure.bytes.toString('hex')}`)
  }
  return failed
}

function repro(targets: readonly FuzzTarget[], hex: string): number {
  if (!/^(?:[0-9a-f]{2})*$/i.test(hex)) throw new SetupError('--repro is not hexadecimal')
  let failed = 0
  for (const target of targets) {
    const problem = tryInput(target, Buffer.from(hex, 'hex'))
    console.log(problem === undefined ? `ok   ${target.name}` : `FAIL ${target.name}: ${problem}`)
    if (problem !== undefined) failed = 1
  }
  return failed
}

function wholeNumber(flag: string, text: string): number {
  if (/^\d{1,10}$/.test(text)) return Number(text)
  throw new SetupError(`${flag} ${text} is not a whole number`)
}
