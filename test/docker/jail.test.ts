import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { hostname, networkInterfaces } from 'node:os'
import { after, before, test } from 'node:test'
import { GenericContainer, Wait, type StartedTestContainer } from 'testcontainers'
import { imageOf } from '../../scripts/images.ts'
import { capture } from '../../scripts/steps.ts'
import { connectFromHost, hostAddresses, listenOnHost, listenUdpOnHost, type HostListener } from '../support/host.ts'
import { connectFromAgent, openSession, type Session } from '../support/session.ts'

/** What a packet without a way gets from the kernel. A timeout would mean that it went somewhere. */
const NO_WAY = /No route to host|Network is unreachable|Cannot assign requested address|Address family not supported/
const SIDECAR_PORTS = [53, 80, 443, 1080, 3128, 7070]

let session: Session
let host: HostListener
before(async () => {
  session = await openSession()
  host = await listenOnHost()
})
after(async () => {
  await host[Symbol.asyncDispose]()
  await session[Symbol.asyncDispose]()
})

/** A container of this test that listens on TCP and UDP 8000 and prints what comes. */
async function neighbour(
  network: string,
): Promise<AsyncDisposable & { container: StartedTestContainer; address: string; log: () => Promise<string> }> {
  const script = `
import socket, threading
tcp = socket.create_server(('0.0.0.0', 8000)); udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.bind(('0.0.0.0', 8000))
def datagrams():
    while True: print('udp', udp.recv(100).decode(), flush=True)
threading.Thread(target=datagrams, daemon=True).start(); print('ready', flush=True)
while True:
    c, a = tcp.accept(); print('tcp', a[0], flush=True); c.close()`
  const container = await new GenericContainer(imageOf('agent'))
    .withNetworkMode(network)
    .withAddedCapabilities('NET_ADMIN')
    .withUser('0')
    .withCommand(['python3', '-u', '-c', script])
    .withWaitStrategy(Wait.forLogMessage('ready'))
    .start()
  return {
    container,
    address: container.getIpAddress(network),
    log: async () => (await capture('docker', ['logs', container.getId()])).stdout,
    [Symbol.asyncDispose]: async () => void (await container.stop({ timeout: 0 })),
  }
}

test('I12 a service of this machine on 0.0.0.0 is unreachable by each address that the machine has', async () => {
  const subnet = session.project.env.get('SALLYPORT_SUBNET') ?? ''
  const gateway = (await session.agent(['sh', '-c', 'awk \'$2 == "00000000" {print $3}\' /proc/net/route'])).stdout.trim()
  const gateways = gateway === '' ? [] : [[...Buffer.from(gateway, 'hex')].toReversed().join('.')]
  const addresses = [...hostAddresses(), ...gateways, subnet.replace(/0\/24$/, '1')]
  assert.ok(addresses.length > 2)
  const results = await Promise.all(addresses.map((address) => connectFromAgent(session, address, host.port)))
  for (const [index, result] of results.entries()) assert.match(result, NO_WAY, addresses[index])
  assert.equal(host.connections(), 0)
})

test('I12 a service of this machine is unreachable by name', async () => {
  const names = ['host.docker.internal', 'gateway.docker.internal', hostname()]
  const results = await Promise.all(names.map((name) => connectFromAgent(session, name, host.port)))
  for (const [index, result] of results.entries())
    assert.match(result, /Name or service not known|Temporary failure in name resolution/, names[index])
  assert.equal(host.connections(), 0)
})

test('I12 the agent cannot talk past the gate to a container on the uplink, on the default bridge or on another bridge', async () => {
  const own = `sallyport-test-${process.pid}`
  assert.equal((await capture('docker', ['network', 'create', own])).code, 0)
  try {
    const tryOn = async (network: string): Promise<void> => {
      await using other = await neighbour(network)
      assert.equal(await connectFromHost(other.address, 8000), 'connected', 'the listener itself works')
      assert.match(await connectFromAgent(session, other.address, 8000), NO_WAY, network)
      await session.agent([
        'python3',
        '-c',
        `import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'agent', ('${other.address}', 8000))`,
      ])
      await sendUdp('control', other.address, 8000)
      await waitForLog(other.log, 'udp control')
      const log = await other.log()
      assert.ok(!log.includes('udp agent'), network)
      assert.equal(log.match(/^tcp /gm)?.length, 1, network)
    }
    await Promise.all([`${session.name}_uplink`, 'bridge', own].map(tryOn))
  } finally {
    await capture('docker', ['network', 'rm', own])
  }
})

test('I12 a datagram from the agent does not reach this machine', async () => {
  await using listener = await listenUdpOnHost()
  for (const address of hostAddresses()) {
    const script = `import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'agent', ('${address}', ${listener.port}))`
    await session.agent(['python3', '-c', script])
  }
  await sendUdp('control', '127.0.0.1', listener.port)
  assert.deepEqual(await listener.until('control'), ['control'])
})

test('I12 the API that the gate reaches is unreachable by its own address', async () => {
  const seen = (await session.upstreamSaw()).length
  const address = await session.address('upstream', 'uplink')
  assert.match(await connectFromAgent(session, address, 443), NO_WAY)
  const direct = ['curl', '-sS', '--noproxy', '*', '--resolve', `api.demo.internal:443:${address}`, 'https://api.demo.internal/v1/me']
  assert.notEqual((await session.agent(direct)).code, 0)
  assert.equal((await session.upstreamSaw()).length, seen)
})

test('I12 NO_PROXY is no way out: what passes comes to the gate all the same, anything else does not exist', async () => {
  const seen = (await session.upstreamSaw()).length
  const direct = ['env', 'NO_PROXY=*', 'no_proxy=*', 'curl', '-sS', '--max-time', '20']
  assert.match((await session.agent([...direct, 'https://api.demo.internal/v1/me'])).stdout, /"authenticated":true/)
  assert.notEqual((await session.agent([...direct, 'https://elsewhere.demo.internal/'])).code, 0)
  assert.equal((await session.upstreamSaw()).length, seen + 1)
})

test('I12 the agent has no IPv6 address, and the bridge’s link-local address on this machine is dead to it', async (t) => {
  const addresses = (await session.agent(['sh', '-c', 'cat /proc/net/if_inet6 2>/dev/null || true'])).stdout
  assert.doesNotMatch(addresses, /eth/)
  const id = (await capture('docker', ['network', 'inspect', '--format', '{{.Id}}', `${session.name}_jail`])).stdout.trim()
  const bridge = networkInterfaces()[`br-${id.slice(0, 12)}`]?.find(({ address }) => address.startsWith('fe80:'))
  if (bridge === undefined) return t.skip('the bridge has no IPv6 address on this machine')
  const script = `
import socket, sys
s = socket.socket(socket.AF_INET6); s.settimeout(8)
try: s.connect(('${bridge.address}', ${host.port}, 0, socket.if_nametoindex('eth0'))); print('connected')
except OSError as error: print(error)`
  assert.match((await session.agent(['python3', '-c', script])).stdout, NO_WAY)
  assert.equal(host.connections(), 0)
})

test('I12 I19 an allowed name is the sidecar’s own address, any other does not exist, and the sidecar says who asked', async () => {
  const sidecar = await session.address('sidecar', 'jail')
  assert.equal((await session.agent(['getent', 'ahostsv4', 'api.demo.internal'])).stdout.split(/\s+/)[0], sidecar)
  for (const name of ['canary.demo.internal', 'elsewhere.demo.internal', 'upstream']) {
    assert.notEqual((await session.agent(['getent', 'hosts', name])).code, 0, name)
  }
  const log = await capture('docker', ['logs', (await session.inspect('sidecar')).Id])
  assert.match(log.stderr, /"name":"canary\.demo\.internal".*"dns name not allowed"/)
})

test('I12 without the sidecar no name is resolved, not even one that it allows', async () => {
  const { Id } = await session.inspect('sidecar')
  await capture('docker', ['pause', Id])
  try {
    const names = ['api.demo.internal', 'upstream', 'elsewhere.demo.internal']
    const results = await Promise.all(names.map((name) => session.agent(['getent', 'hosts', name])))
    for (const [index, { code }] of results.entries()) assert.notEqual(code, 0, names[index])
  } finally {
    await capture('docker', ['unpause', Id])
  }
})

test('I13 this machine cannot use the sidecar by its uplink address', async () => {
  const address = await session.address('sidecar', 'uplink')
  for (const port of SIDECAR_PORTS) assert.equal(await connectFromHost(address, port), 'ECONNREFUSED', String(port))
})

test('I13 a neighbour on the uplink cannot use the sidecar: not by its uplink address, nor by a route to its jail address', async () => {
  await using other = await neighbour(`${session.name}_uplink`)
  const [uplink, jail] = [await session.address('sidecar', 'uplink'), await session.address('sidecar', 'jail')]
  const seen = (await session.upstreamSaw()).length
  for (const port of SIDECAR_PORTS) {
    const { output } = await other.container.exec(['python3', '-c', `import socket; socket.create_connection(('${uplink}', ${port}), 5)`])
    assert.match(output, /Connection refused/, String(port))
  }
  // Linux takes a packet for any of its addresses on any interface, forwarding or not: a route is all that it needs.
  const script = `
import fcntl, socket, struct
address = lambda ip: struct.pack('=H2x4s8x', socket.AF_INET, socket.inet_aton(ip))
route = struct.pack('=Q16s16s16sHh4xQQh6xQQQH6x', 0, address('${jail}'), address('${uplink}'), address('255.255.255.255'), 7, 0, 0, 0, 0, 0, 0, 0, 0)
fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x890B, route)
for port, request in ((3128, b'GET http://api.demo.internal/v1/me HTTP/1.1\\r\\nHost: api.demo.internal\\r\\n\\r\\n'), (7070, b'GET /ca.crt HTTP/1.1\\r\\nHost: sallyport\\r\\n\\r\\n')):
    answer = b''
    try:
        s = socket.create_connection(('${jail}', port), 5); s.sendall(request)
        while chunk := s.recv(65536): answer += chunk
    except OSError as error: print(error)
    print(port, 'answered', answer)`
  const { output } = await other.container.exec(['python3', '-c', script])
  assert.match(output, /3128 answered b''/)
  assert.match(output, /7070 answered b''/)
  assert.equal((await session.upstreamSaw()).length, seen)
})

for (const { what, script, error } of [
  {
    what: 'open a raw socket',
    script: 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)',
    error: /Operation not permitted/,
  },
  {
    what: 'open a packet socket',
    script: 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)',
    error: /Operation not permitted/,
  },
  {
    what: 'switch IPv6 on again',
    script: "open('/proc/sys/net/ipv6/conf/all/disable_ipv6', 'w').write('0')",
    error: /Read-only file system|Permission denied/,
  },
  {
    what: 'make a network of its own',
    script:
      'import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); failed = libc.unshare(0x50000000); raise SystemExit(os.strerror(ctypes.get_errno()) if failed else 0)',
    error: /Operation not permitted/,
  },
]) {
  test(`I12 the agent cannot ${what}`, async () => {
    const { code, stderr } = await session.agent(['python3', '-c', script])
    assert.notEqual(code, 0)
    assert.match(stderr, error)
  })
}

function sendUdp(text: string, address: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = createSocket('udp4')
    socket.send(text, port, address, (error) => {
      socket.close()
      if (error) reject(error)
      else resolve()
    })
  })
}

async function waitForLog(log: () => Promise<string>, text: string): Promise<void> {
  while (!(await log()).includes(text));
}
