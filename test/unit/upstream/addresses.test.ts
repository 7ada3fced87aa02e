import assert from 'node:assert/strict'
import { networkInterfaces } from 'node:os'
import { test } from 'node:test'
import { createAddresses, type Addresses } from '../../../src/sidecar/upstream/addresses.ts'
import { factsOf, hostname, policyOf } from '../../support/policy.ts'
import type { Hostname } from '../../../src/kernel/hostname.ts'
import type { AllowedRule } from '../../../src/policy/policy.ts'

const OWN = Object.values(networkInterfaces())
  .flatMap((list) => list ?? [])
  .find((entry) => !entry.internal && entry.family === 'IPv4')?.address

/** Judges what a DNS made up by the test says, under a rule with these exceptions. */
function openTestAddresses(
  options: { answer?: readonly string[]; exceptions?: readonly string[]; ports?: readonly number[]; host?: string } = {},
): {
  addresses: { judge(host: Hostname, port: number, rule: AllowedRule): ReturnType<Addresses['judge']> }
  rule: AllowedRule
  asked: string[]
} {
  const host = options.host ?? 'api.example.com'
  const asked: string[] = []
  const policy = policyOf({
    rules: [{ id: 'r', host, action: 'allow', ...(options.exceptions && { addresses: options.exceptions }) }],
  })
  const decision = policy.decide(factsOf(`GET https://${host}/`))
  if (decision.action === 'deny') throw new Error(decision.refusal.message)
  const resolve = (name: string): Promise<readonly string[]> => {
    asked.push(name)
    return Promise.resolve(options.answer ?? [])
  }
  const judging = createAddresses(
    resolve,
    { isListener: (_address, port) => options.ports?.includes(port) === true, isBeside: () => false },
    { elapsed: () => 0 },
  )
  const addresses = { judge: (name: Hostname, port: number, rule: AllowedRule) => judging.judge(policy, name, port, rule) }
  return { addresses, rule: decision.rule, asked }
}

test('I4 what is judged is what is given: the same addresses in the same order', async () => {
  const answer = ['127.0.0.9', '127.0.0.1']
  const { addresses, rule } = openTestAddresses({ answer, exceptions: ['127.0.0.0/8'] })
  assert.deepEqual(await addresses.judge(hostname('api.example.com'), 443, rule), { addresses: answer })
})

for (const answer of [
  ['127.0.0.1', '127.0.0.2'],
  ['127.0.0.2', '127.0.0.1'],
]) {
  test(`I4 one refused address refuses all: ${answer.join(', ')} where only 127.0.0.1 is excepted`, async () => {
    const { addresses, rule } = openTestAddresses({ answer, exceptions: ['127.0.0.1/32'] })
    const judged = await addresses.judge(hostname('api.example.com'), 443, rule)
    assert.equal('code' in judged && judged.code, 'address_refused')
  })
}

for (const address of ['127.0.0.1', '127.8.9.10', '::1']) {
  test(`I4 a listener of the gate is refused under ${address} though the rule excepts the address`, async () => {
    const { addresses, rule } = openTestAddresses({ answer: [address], exceptions: ['127.0.0.0/8', '::1/128'], ports: [3128, 7070] })
    const judged = await addresses.judge(hostname('api.example.com'), 7070, rule)
    assert.equal('code' in judged && judged.code, 'address_refused')
    assert.match('message' in judged ? judged.message : '', /a listener of Sallyport itself/)
    assert.deepEqual(await addresses.judge(hostname('api.example.com'), 7071, rule), { addresses: [address] })
  })
}

test('I4 one address of a listener among others refuses all', async () => {
  const { addresses, rule } = openTestAddresses({
    answer: ['192.0.2.1', '127.0.0.1'],
    exceptions: ['127.0.0.0/8', '192.0.2.0/24'],
    ports: [3128],
  })
  const judged = await addresses.judge(hostname('api.example.com'), 3128, rule)
  assert.equal('code' in judged && judged.code, 'address_refused')
})

test("I4 an address of this machine's own interface is refused, and its listener port even where the rule excepts it", async (context) => {
  if (OWN === undefined) return context.skip('this machine has loopback only')
  const refused = openTestAddresses({ answer: [OWN] })
  const judged = await refused.addresses.judge(hostname('api.example.com'), 443, refused.rule)
  assert.equal('code' in judged && judged.code, 'address_refused')
  const excepted = openTestAddresses({ answer: [OWN], exceptions: [`${OWN}/32`], ports: [3128] })
  const listener = await excepted.addresses.judge(hostname('api.example.com'), 3128, excepted.rule)
  assert.equal('code' in listener && listener.code, 'address_refused')
})

test('I4 a name that is refused by itself is never looked up', async () => {
  const { addresses, rule, asked } = openTestAddresses({ host: 'metadata.google.internal' })
  const judged = await addresses.judge(hostname('metadata.google.internal'), 443, rule)
  assert.equal('code' in judged && judged.code, 'name_refused')
  assert.deepEqual(asked, [])
})

test('a refusal names the rule that would have to except the address', async () => {
  const { addresses, rule } = openTestAddresses({ answer: ['169.254.169.254'] })
  const judged = await addresses.judge(hostname('api.example.com'), 443, rule)
  assert.deepEqual('code' in judged && [judged.code, judged.rule], ['address_refused', 'r'])
})
