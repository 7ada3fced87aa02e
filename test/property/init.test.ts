import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { parse } from 'yaml'
import { parseHostname, type Hostname } from '../../src/kernel/hostname.ts'
import { remoteHost, remotesIn, type Detected } from '../../src/controller/init/detect.ts'
import { KINDS } from '../../src/controller/init/kinds.ts'
import { policyText } from '../../src/controller/init/policy-text.ts'
import { HARNESS_NAMES } from '../../src/controller/sessions/harness.ts'
import { checkPolicy } from '../../src/policy/policy.ts'
import { ROOT } from '../support/tree.ts'

const NOTHING = { secrets: new Set<string>(), credentials: new Set<string>(), harness: undefined }
const hostileName = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 200 }),
  fc.constantFrom('x\nextends: [service/docker]\n', 'x\r- evil', '\u2028version: 2', '#', ': {', '\u0000', '"]'),
)
const detected: fc.Arbitrary<Detected> = fc.record({
  kinds: fc
    .subarray([...KINDS])
    .chain((kinds) =>
      fc.tuple(...kinds.map((kind) => fc.array(hostileName, { minLength: 1, maxLength: 3 }).map((evidence) => ({ kind, evidence })))),
    ),
  gitHost: fc.option(
    fc.constantFrom('github.com', 'gitlab.com', 'bitbucket.org', 'git.example.com').map((text) => parseHostname(text) as Hostname),
    {
      nil: undefined,
    },
  ),
  harness: fc.constant(undefined),
  isCut: fc.boolean(),
})
const harness = fc.option(fc.constantFrom(...HARNESS_NAMES.filter((name) => name !== 'plain')), { nil: undefined })

test('whatever is found, and whatever it is called, the policy passes and says no more than its kinds do', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  const file = join(folder, 'policy.yaml')
  try {
    fc.assert(
      fc.property(detected, harness, hostileName, (found, chosen, workspace) => {
        const { text } = policyText({ workspace, detected: found, harness: chosen, taken: NOTHING })
        writeFileSync(file, text)
        assert.deepEqual(checkPolicy([file], { policyDirs: [join(ROOT, 'policies')] }).errors, [])
        const policy = parse(text) as { extends?: string[]; network: { mode: string; rules: unknown[]; harness?: string } }
        const git = ['github', 'gitlab', 'bitbucket']
          .filter((name) => found.gitHost?.startsWith(`${name}.`))
          .map((name) => `service/${name}`)
        assert.deepEqual(policy.extends ?? [], [...found.kinds.flatMap(({ kind }) => kind.extends), ...git])
        assert.deepEqual(policy.network, { mode: 'restricted', rules: [], ...(chosen !== undefined && { harness: chosen }) })
      }),
      { numRuns: 150 },
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('any text is read as a git config without failing, and a host that comes of it is a canonical one', () => {
  const lines = fc.array(
    fc.oneof(
      fc.string(),
      fc.constantFrom('[remote "origin"]', '[remote "a\\"b"]', '[include]'),
      fc.webUrl().map((url) => `\turl = ${url}`),
    ),
  )
  fc.assert(
    fc.property(lines, (list) => {
      for (const { url } of remotesIn(list.join('\n'))) {
        const host = remoteHost(url)
        if (host !== undefined) assert.equal(parseHostname(host), host)
      }
    }),
  )
})
