import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRedaction, openOutput, redactedChunks, type OutputStream } from '../../../src/controller/terminal/redacted.ts'
import { Secret } from '../../../src/kernel/secret.ts'

const SECRET = 'k7Fq-2mZ_x9Wc4R-t8Yp'
const MASK = '*'.repeat(SECRET.length)
const secretsOf = (...values: string[]): Secret[] => values.map((value, i) => new Secret(`S${i}`, value))
const outputFor = (...values: string[]): OutputStream => {
  const secrets = secretsOf(...values)
  return openOutput(
    createRedaction(() => secrets),
    'screen',
  )
}
const push = (output: OutputStream, text: string): string => output.push(Buffer.from(text)).toString()

for (const prompt of ['$ ', 'Password: ', '>>> ', '(y/n) ', 'root@box:/# ', 'k7F)', 'Continue? [Y', '日本', '… ']) {
  test(`the prompt ${JSON.stringify(prompt)}, which begins no secret, appears at once, without a line end`, () => {
    const output = outputFor(SECRET)
    assert.equal(push(output, prompt), prompt)
    assert.equal(output.isHolding, false)
  })
}

test('a letter that could begin a secret is late, and is shown when it is asked for', () => {
  const output = outputFor(SECRET)
  assert.equal(push(output, '$ k'), '$ ')
  assert.equal(output.isHolding, true)
  assert.equal(output.release().toString(), 'k')
  assert.equal(push(output, 'i'), 'i')
})

test('what a person types letter by letter, each asked for, appears but for what is further along a secret than four letters', () => {
  const output = outputFor(SECRET)
  const shown = Array.from('k7Fq-2n', (letter) => push(output, letter) + output.release().toString())
  assert.deepEqual(shown, ['k', '7', 'F', 'q', '', '', '-2n'])
})

test('a secret that comes letter by letter, each asked for, shows its first four letters and no more', () => {
  const output = outputFor(SECRET)
  const shown = Array.from(`${SECRET}.`, (letter) => push(output, letter) + output.release().toString()).join('')
  assert.equal(shown, `${SECRET.slice(0, 4)}${MASK.slice(4)}.`)
})

test('of a secret of six letters two are shown early, not four', () => {
  const output = outputFor('Zq9$Lw')
  const shown = Array.from('Zq9$Lw.', (letter) => push(output, letter) + output.release().toString()).join('')
  assert.equal(shown, 'Zq****.')
})

test('more than four letters of a secret are held back until it is decided, however often they are asked for', () => {
  const output = outputFor(SECRET)
  assert.equal(push(output, SECRET.slice(0, 12)), '')
  assert.equal(output.release().toString() + output.release().toString(), '')
  assert.equal(push(output, '!'), `${SECRET.slice(0, 12)}!`)
})

test('what is held back is given at the end', () => {
  const output = outputFor(SECRET)
  assert.equal(push(output, SECRET.slice(0, 12)), '')
  assert.equal(output.end().toString(), SECRET.slice(0, 12))
})

test('a move of the cursor ends what could have been a secret: it is not found in two places of the screen', () => {
  const output = outputFor(SECRET)
  assert.equal(push(output, `${SECRET.slice(0, 10)}\x1b[2;1H`), `${SECRET.slice(0, 10)}\x1b[2;1H`)
})

test('colours stand where they stood, in what is masked as in what is not', () => {
  const output = outputFor(SECRET)
  const coloured = `a\x1b[1m${SECRET.slice(0, 7)}\x1b[31;4m${SECRET.slice(7)}\x1b[0mb`
  assert.equal(push(output, coloured), `a\x1b[1m${MASK.slice(0, 7)}\x1b[31;4m${MASK.slice(7)}\x1b[0mb`)
})

test('a secret that is pushed is in force for the very next byte, in the middle of itself, and the former one stays so', () => {
  let secrets = secretsOf(SECRET)
  const output = openOutput(
    createRedaction(() => secrets),
    'screen',
  )
  assert.equal(push(output, SECRET.slice(0, 10)), '')
  secrets = secretsOf('Another-One-4711')
  assert.equal(push(output, `${SECRET.slice(10)} Another-One-4711 .`), `${MASK} **************** .`)
  secrets = []
  assert.equal(push(output, `${SECRET} Another-One-4711 .`), `${MASK} **************** .`)
})

test('as long as the secrets are the same, so is the redactor', () => {
  const secrets = secretsOf(SECRET)
  let given: readonly Secret[] = secrets
  const redaction = createRedaction(() => given)
  const first = redaction.current()
  given = [...secrets]
  assert.equal(redaction.current(), first)
  given = secretsOf(SECRET, 'Another-One-4711')
  assert.notEqual(redaction.current(), first)
})

test('a value that is too short to be told from text is not looked for', () => {
  assert.equal(push(outputFor('abc'), 'abc '), 'abc ')
})

test('a secret in two halves on two streams is not found: each is a stream of its own', () => {
  const redaction = createRedaction(() => SECRETS)
  const [stdout, stderr] = [openOutput(redaction, 'pipe'), openOutput(redaction, 'pipe')]
  assert.equal(push(stdout, SECRET.slice(0, 10)) + stdout.end().toString(), SECRET.slice(0, 10))
  assert.equal(push(stderr, SECRET.slice(10)) + stderr.end().toString(), SECRET.slice(10))
})
const SECRETS = secretsOf(SECRET)

test('chunks of a source that goes quiet are released, and those of one that ends are given whole', async () => {
  const { promise: quiet, resolve: goOn } = Promise.withResolvers<void>()
  async function* source(): AsyncGenerator<Buffer> {
    yield Buffer.from('$ k7')
    await quiet
    yield Buffer.from(`${SECRET} k7Fq-2`)
  }
  const shown: string[] = []
  for await (const bytes of redactedChunks(source(), outputFor(SECRET))) {
    shown.push(bytes.toString())
    // What comes late was released while the source waits.
    if (shown.join('') === '$ k7') goOn()
  }
  assert.deepEqual(shown.slice(0, 2), ['$ ', 'k7'])
  assert.equal(shown.join(''), `$ k7${MASK} k7Fq-2`)
})

test('questions that are answered in the terminal’s place are handed on', async () => {
  const answers: string[] = []
  async function* source(): AsyncGenerator<Buffer> {
    yield Buffer.from('\x1b[c')
  }
  for await (const bytes of redactedChunks(source(), outputFor(), (given) => answers.push(...given))) assert.equal(bytes.length, 0)
  assert.deepEqual(answers, ['\x1b[?62;22c'])
})
