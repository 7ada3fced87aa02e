import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readClientHello } from '../../src/sidecar/inbound/client-hello.ts'
import { checkStream, FUZZ_TARGETS } from '../support/fuzz-targets.ts'
import { fuzz, tryInput, type FuzzTarget } from '../support/fuzz.ts'

const ROUNDS = 20_000
/** Another one each day. It stands in the title: that is all it takes to try the same again. */
const TODAY = Number(new Date().toISOString().slice(0, 10).replaceAll('-', ''))

for (const target of FUZZ_TARGETS) {
  test(`${target.name}: each input of the corpus is read as it should be`, () => {
    for (const bytes of target.corpus) assert.equal(tryInput(target, bytes), undefined, bytes.toString('hex'))
  })
  for (const seed of [1, TODAY]) {
    test(`${target.name}: ${ROUNDS} changed inputs of seed ${seed} are read without a fault`, () => {
      const failure = fuzz(target, { seed, rounds: ROUNDS })
      if (failure === undefined) return
      assert.fail(`${failure.problem}: node scripts/fuzz.ts --target ${target.name} --repro ${failure.bytes.toString('hex')}`)
    })
  }
}

test('hello: each input of the corpus is a complete ClientHello, also with more behind it', () => {
  const hellos = FUZZ_TARGETS.find(({ name }) => name === 'hello')?.corpus ?? []
  assert.ok(hellos.length > 0)
  for (const bytes of hellos) assert.equal(readClientHello(bytes).state, 'complete', bytes.toString('hex').slice(0, 200))
})

/** How long the planted loop is waited for. A slow machine makes no difference: each input is tried by itself again. */
const INPUT_MS = 200
const corpus = [Buffer.from('0102030405', 'hex')]
const planted = (check: FuzzTarget['check']): FuzzTarget => ({ name: 'planted', corpus, check })

for (const [what, check] of Object.entries<FuzzTarget['check']>({
  'a throw': (bytes) => {
    if (bytes[1] === 255) throw new RangeError('planted')
    return undefined
  },
  'an endless loop': (bytes) => {
    while (bytes[1] === 255);
    return undefined
  },
  'a reader that changes its mind': (bytes) => checkStream((part) => ({ state: part.length > 7 ? 'invalid' : 'complete' }), bytes),
  'a reader that looks past the end': (bytes) =>
    checkStream((part) => ({ state: new Uint8Array(part.buffer)[part.byteOffset + part.length] === 255 ? 'invalid' : 'complete' }), bytes),
})) {
  test(`${what} is found, and found again with the bytes that are given`, () => {
    const failure = fuzz(planted(check), { seed: 1, rounds: ROUNDS, inputMs: INPUT_MS })
    assert.ok(failure)
    assert.notEqual(tryInput(planted(check), failure.bytes, INPUT_MS), undefined)
    const again = fuzz(planted(check), { seed: 1, rounds: ROUNDS, inputMs: INPUT_MS })
    // How it shows depends on what lies around the bytes in memory.
    assert.deepEqual({ ...again, problem: '' }, { ...failure, problem: '' }, 'the seed gives the same input')
  })
}
