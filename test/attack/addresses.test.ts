import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isHostname, parseHostname } from '../../src/kernel/hostname.ts'
import { classifyAddress, type AllowedRule } from '../../src/policy/policy.ts'
import { DISGUISED_ADDRESSES } from '../support/hostile-names.ts'
import { factsOf, hostname, policyOf } from '../support/policy.ts'
import { REFUSED_ADDRESSES } from '../support/refused-addresses.ts'

const PUBLIC = [
  '1.1.1.1',
  '8.8.8.8',
  '9.255.255.255',
  '11.0.0.0',
  '100.63.255.255',
  '100.128.0.0',
  '126.255.255.255',
  '128.0.0.0',
  '169.253.255.255',
  '169.255.0.0',
  '172.15.255.255',
  '172.32.0.0',
  '192.0.1.0',
  '192.0.3.0',
  '192.167.255.255',
  '192.169.0.0',
  '198.17.255.255',
  '198.20.0.0',
  '223.255.255.255',
  '168.63.129.15',
  '168.63.129.17',
  '2000::1',
  '2001:200::1',
  '2001:4860:4860::8888',
  '2606:4700::1111',
  '2003::1',
  '2620:4f:8001::1',
  '3ffe::1',
  '3fff:1000::1',
]

function ruleWith(
  addresses: readonly string[],
  host = 'api.example.com',
): { rule: AllowedRule; readonly judge: (list: readonly string[], own?: readonly string[]) => string } {
  const policy = policyOf({ rules: [{ id: 'r', host, ...(addresses.length > 0 && { addresses }) }] })
  const decision = policy.decide(factsOf(`GET https://${host}/`))
  if (decision.action !== 'allow') throw new Error('not allowed')
  return {
    rule: decision.rule,
    judge: (list, own = []) => policy.judgeAddresses(hostname(host), decision.rule, list, own)?.message ?? 'fine',
  }
}

for (const [name, addresses] of Object.entries(REFUSED_ADDRESSES)) {
  test(`I4 ${name} addresses are refused by class and address: ${addresses.length} of them`, () => {
    const { judge } = ruleWith([])
    for (const address of addresses) {
      assert.equal(classifyAddress(address)?.name, name, address)
      assert.match(judge([address]), new RegExp(`leads to ${address.replaceAll('.', '\\.')}, which is refused: ${name} \\(`), address)
    }
  })
}

test('public addresses right beside refused ranges are fine', () => {
  const { judge } = ruleWith([])
  for (const address of PUBLIC) assert.equal(judge([address]), 'fine', address)
})

test('I4 one refused address among public ones refuses all, wherever it stands', () => {
  const { judge } = ruleWith([])
  assert.match(judge(['8.8.8.8', '10.0.0.1']), /10\.0\.0\.1/)
  assert.match(judge(['10.0.0.1', '8.8.8.8', '2606:4700::1111']), /10\.0\.0\.1/)
  assert.match(judge(['8.8.8.8', '::1']), /::1/)
})

test('no address, and text that is none, are refused', () => {
  const { judge } = ruleWith([])
  assert.match(judge([]), /has no address/)
  for (const text of [
    '',
    'localhost',
    '2130706433',
    '0x7f.1',
    '127.1',
    '0177.0.0.1',
    '010.0.0.1',
    '1.2.3.4.',
    '[::1]',
    'fe80::1%eth0',
    '8.8.8.8\0',
    ' 8.8.8.8',
  ]) {
    assert.match(judge([text]), /not an address/, text)
  }
})

test('a range in addresses opens itself and nothing beside it', () => {
  const { judge } = ruleWith(['10.1.0.0/16', 'fd12::/32'])
  for (const address of ['10.1.0.1', '10.1.255.255', 'fd12::1', '8.8.8.8']) assert.equal(judge([address]), 'fine', address)
  for (const address of ['10.0.255.255', '10.2.0.0', '127.0.0.1', 'fd13::1', '::ffff:10.1.0.1', '::10.1.0.1', '64:ff9b::a01:1'])
    assert.notEqual(judge([address]), 'fine', address)
})

test('I4 a range never opens metadata addresses, the widest one neither; the exact address does', () => {
  const wide = ruleWith(['0.0.0.0/0', '::/0'])
  for (const address of REFUSED_ADDRESSES['metadata'] ?? []) {
    assert.match(wide.judge([address]), /refused: metadata/, address)
    const exact = ruleWith([`${address}/${address.includes(':') ? 128 : 32}`])
    assert.equal(exact.judge([address]), 'fine', address)
  }
})

test('I4 a range never opens addresses of the proxy itself, the exact address does', () => {
  const own = ['172.20.0.2', 'fd99::2', 'fe80::42:1%eth0', '203.0.114.7']
  const wide = ruleWith(['0.0.0.0/0', '::/0'])
  assert.match(wide.judge(['172.20.0.2'], own), /refused: own/)
  assert.match(wide.judge(['fd99:0:0:0::2'], own), /refused: own/)
  assert.match(wide.judge(['fe80::42:1'], own), /refused: own/)
  assert.equal(wide.judge(['172.20.0.3'], own), 'fine')
  assert.match(ruleWith([]).judge(['203.0.114.7'], own), /refused: own/)
  assert.equal(ruleWith(['172.20.0.2/32']).judge(['172.20.0.2'], own), 'fine')
})

test('I4 an IPv6 range that holds IPv4 addresses opens the form, and each inside is judged still', () => {
  const { judge } = ruleWith(['64:ff9b::/96', '2002::/16'])
  assert.equal(judge(['64:ff9b::8.8.8.8']), 'fine')
  assert.match(judge(['64:ff9b::a9fe:a9fe']), /metadata/)
  assert.match(judge(['64:ff9b::7f00:1']), /loopback/)
  assert.match(judge(['2002:a00:1::1']), /private/)
  assert.match(judge(['64:ff9b::ac14:2'], ['172.20.0.2']), /own/)
})

for (const text of DISGUISED_ADDRESSES) {
  test(`I2 host ${JSON.stringify(text)} is refused in that spelling`, () => assert.equal(isHostname(parseHostname(text)), false))
}

test('an address as host comes to the same verdict in every spelling that is read', () => {
  for (const [text, host] of [
    ['[::1]', '::1'],
    ['0:0:0:0:0:0:0:1', '::1'],
    ['[FD00:EC2::254]', 'fd00:ec2::254'],
    ['fd00:0ec2:0000::0254', 'fd00:ec2::254'],
  ] as const) {
    assert.equal(parseHostname(text), host)
    assert.notEqual(classifyAddress(host), undefined)
  }
})
