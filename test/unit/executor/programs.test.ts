import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codeOperands, programName } from '../../../src/controller/executor/programs.ts'

for (const [command, found] of [
  ['sh script.sh', ['script.sh']],
  ['bash -e -o pipefail ./x y', ['./x']],
  ['bash -c x y', []],
  ['bash -xc x y', []],
  ['sh -- x', ['x']],
  ['node x.js y.js', ['x.js']],
  ['node -r ./hook x.js', ['x.js']],
  ['node --import=./hook x.js', ['x.js']],
  ['node --eval=1 x', []],
  ['node --test x', []],
  ['python3 -m black x.py', []],
  ['python3.12 -W ignore x.py', ['x.py']],
  ['python3 -c 1 x.py', []],
  ['perl -w x.pl', ['x.pl']],
  ['awk -f prog data', ['prog']],
  ['awk -fprog data', ['prog']],
  ['awk --file=a -f b data', ['a', 'b']],
  ['awk {print} data', []],
  ['make -f Mk all', ['Mk']],
  ['make --file=Mk', ['Mk']],
  ['deno run x.ts', ['x.ts']],
  ['ls x', []],
  ['env A=1 -u B x y', ['command x']],
  ['timeout -k 1 5 x y', ['command x']],
  ['nice -n 5 ./x', ['command ./x']],
  ['stdbuf -oL x', ['command x']],
  ['env', []],
] as const)
  test(`of "${command}" ${found.length === 0 ? 'nothing' : found.join(', ')} is code`, () => {
    const argv = command.split(' ')
    const operands = codeOperands(programName(argv[0] as string), argv, 0)
    assert.deepEqual(
      operands.map((one) => (one.kind === 'script' ? one.path : `command ${argv[one.at]}`)),
      found,
    )
  })
