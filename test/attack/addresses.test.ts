import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isHostname, parseHostname } from '../../src/kernel/hostname.ts'
import { classifyAddress, type AllowedRule } from '../../src/policy/policy.ts'
import { factsOf, hostname, policyOf } from '../support/policy.ts'

/** Class names and one or two addresses of every row of the IANA registries and of the providers' documents. */
const REFUSED: Readonly<Record<string, readonly string[]>> = {
  unspecified: ['0.0.0.0', '0.1.2.3', '::'],
  private: [
    '10.0.0.1',
    '10.255.255.255',
    '172.16.0.1',
    '172.31.255.254',
    '192.168.0.1',
    '192.168.255.255',
    '161.26.0.10',
    '166.11.255.255',
  ],
  cgnat: ['100.64.0.1', '100.127.255.254'],
  loopback: ['127.0.0.1', '127.1.2.3', '127.255.255.255', '::1'],
  'link-local': ['169.254.1.1', '169.254.255.255', 'fe80::1', 'febf::1'],
  ietf: [
    '192.0.0.1',
    '192.0.0.8',
    '192.0.0.9',
    '192.0.0.10',
    '192.0.0.170',
    '192.0.0.171',
    '2001:1::1',
    '2001:1::2',
    '2001:1::3',
    '2001:1ff::1',
  ],
  documentation: ['192.0.2.1', '198.51.100.1', '203.0.113.1', '2001:db8::1', '3fff::1', '3fff:fff::1'],
  as112: ['192.31.196.1', '192.175.48.1', '2001:4:112::1', '2620:4f:8000::1'],
  amt: ['192.52.193.1', '2001:3::1'],
  sixtofour: ['192.88.99.1', '192.88.99.2', '2002:7f00:1::1', '2002:808:808::1'],
  benchmark: ['198.18.0.1', '198.19.255.255', '2001:2::1'],
  multicast: ['224.0.0.1', '239.255.255.255', '233.252.0.1', 'ff02::1', 'ff0e::1'],
  reserved: ['240.0.0.1', '255.255.255.254'],
  broadcast: ['255.255.255.255'],
  'v4-compatible': ['::2', '::7f00:1', '::127.0.0.1', '::8.8.8.8'],
  'v4-mapped': ['::ffff:7f00:1', '::ffff:127.0.0.1', '::ffff:8.8.8.8', '0:0:0:0:0:ffff:a9fe:a9fe'],
  'v4-translated': ['::ffff:0:7f00:1', '::ffff:0:127.0.0.1'],
  nat64: ['64:ff9b::7f00:1', '64:ff9b::8.8.8.8', '64:ff9b:1::1', '64:ff9b:1:ffff::1'],
  discard: ['100::1', '100:0:0:1::1'],
  teredo: ['2001::1', '2001:0:4136:e378:8000:63bf:3fff:fdd2'],
  orchid: ['2001:10::1', '2001:1f::1', '2001:20::1', '2001:2f:ffff::1'],
  drip: ['2001:30::1', '2001:3f::1'],
  isatap: ['2606:4700::5efe:7f00:1', '2a00::200:5efe:808:808'],
  srv6: ['5f00::1'],
  'unique-local': ['fc00::1', 'fd12:3456::1', 'fdff::1'],
  'site-local': ['fec0::1', 'feff::1'],
  unassigned: ['1::1', '4000::1', '8000::1', 'e000::1', 'f800::1', '100:0:0:2::1', '64:ff9b:2::1'],
  metadata: [
    '169.254.169.254',
    '169.254.169.253',
    '169.254.169.123',
    '169.254.169.250',
    '169.254.169.251',
    '169.254.170.2',
    '169.254.170.23',
    '168.63.129.16',
    '100.100.100.200',
    '100.100.2.136',
    '100.100.2.138',
    '192.0.0.192',
    '169.254.0.2',
    '169.254.0.23',
    '169.254.10.10',
    '169.254.42.42',
    '100.96.0.96',
    '127.0.0.11',
    '172.17.0.1',
    '192.168.65.254',
    '10.0.2.2',
    '169.254.1.2',
    '192.168.5.2',
    '0.250.250.254',
    'fd00:ec2::254',
    'fd00:ec2::253',
    'fd00:ec2::123',
    'fd00:ec2::23',
    'fd20:ce::254',
    'fd00:100::100:200',
    'fd00:c1::a9fe:a9fe',
    'fe80::a9fe:a9fe',
    'fd00:42::42',
    'fd00:a9fe:a9fe::1',
    'fdaa::3',
  ],
}

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

for (const [name, addresses] of Object.entries(REFUSED)) {
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
  for (const address of REFUSED['metadata'] ?? []) {
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

/** Spellings of 127.0.0.1 and 169.254.169.254 on the wire: none may become a host that is then judged by another spelling. */
for (const text of [
  '2130706433',
  '0177.0.0.1',
  '0x7f.1',
  '0x7f000001',
  '127.1',
  '127.0.1',
  '0',
  '0x0',
  '127.0.0.1.',
  '127.0.0.01',
  '1.2.3.256',
  '017700000001',
  '::ffff:7f00:1',
  '::ffff:127.0.0.1',
  '[::ffff:127.0.0.1]',
  '0:0:0:0:0:FFFF:7F00:0001',
  '[::1%25eth0]',
  'fe80::1%eth0',
  '[::1',
  '::1]',
  '2852039166',
  '0xa9fea9fe',
  '169.254.43518',
  '0251.0376.0251.0376',
  '１２７.0.0.1',
  '127。0。0。1',
  '①②⑦.0.0.1',
  'a.0x7f',
  'foo.1',
]) {
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
