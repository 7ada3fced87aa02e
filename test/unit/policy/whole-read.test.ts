import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { SallyportError } from '../../../src/kernel/errors.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { readWhole } from '../../../src/policy/whole-read.ts'
import { loadPolicy, type Policy } from '../../../src/policy/policy.ts'
import { ruleText } from '../../support/layers.ts'

/** Two files behind the link `current`, as a session's policy is frozen; each generation has a number in both. */
function linked() {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-generations-'))
  const [one, two] = ['one', 'two'].map((name) => join(folder, 'current', `${name}.yaml`)) as [string, string]
  let last = 0
  const swap = (): void => {
    last += 1
    mkdirSync(join(folder, `policy-${last}`))
    for (const name of ['one', 'two'])
      writeFileSync(join(folder, `policy-${last}`, `${name}.yaml`), ruleText(name, `host${last}.example.com`, 'allow'))
    symlinkSync(`policy-${last}`, join(folder, '.next'))
    renameSync(join(folder, '.next'), join(folder, 'current'))
  }
  swap()
  return { folder, one, two, swap, [Symbol.dispose]: () => rmSync(folder, { recursive: true }) }
}

const hostsOf = (policy: Policy): string[] => policy.effective.rules.map(({ host }) => host)

test('I18 files behind a link that is swapped between two of them are read again: never two generations in one policy', () => {
  using files = linked()
  let reads = 0
  const policies = readWhole([files.one, files.two], () => {
    const first = loadPolicy([files.one], { policyDirs: [] })
    if ((reads += 1) === 1) files.swap()
    return [first, loadPolicy([files.two], { policyDirs: [] })]
  })
  assert.equal(reads, 2)
  assert.deepEqual(policies.flatMap(hostsOf), ['host2.example.com', 'host2.example.com'])
})

test('a generation that is removed while it is read is no fault: the next one is read', () => {
  using files = linked()
  let reads = 0
  const policy = readWhole([files.one, files.two], () => {
    if ((reads += 1) > 1) return loadPolicy([files.one, files.two], { policyDirs: [] })
    files.swap()
    rmSync(join(files.folder, 'policy-1'), { recursive: true })
    throw new SallyportError('policy_not_found', 'policy-1/two.yaml is gone')
  })
  assert.deepEqual(hostsOf(policy), ['host2.example.com', 'host2.example.com'])
})

test('a fault of files that stay what they are is thrown at once', () => {
  using files = linked()
  let reads = 0
  const read = (): never => {
    reads += 1
    throw new SallyportError('policy_invalid', 'a fault')
  }
  assert.throws(() => readWhole([files.one], read), { code: 'policy_invalid', message: 'a fault' })
  assert.equal(reads, 1)
})

test('files that are swapped at every look are policy_invalid after the bound, and what was mixed is never given out', () => {
  using files = linked()
  let reads = 0
  const read = (): number => {
    files.swap()
    return (reads += 1)
  }
  assert.throws(() => readWhole([files.one], read), { code: 'policy_invalid', message: /current\/one\.yaml/ })
  assert.equal(reads, LIMITS.policyReadsMax)
})
