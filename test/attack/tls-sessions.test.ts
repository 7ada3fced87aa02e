/** Sessions of TLS that an agent keeps: they resume at the host they are of, and lead nowhere else. */
import assert from 'node:assert/strict'
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls'
import { test } from 'node:test'
import { openTlsTunnel, openTunnel, readToEnd } from '../support/raw-client.ts'
import { API, CANARY, openSetting, OTHER, type Setting } from '../support/setting.ts'

const VERSIONS = ['TLSv1.2', 'TLSv1.3'] as const

/** Node binds a session to its name and offers it for no other. A hostile agent has what is inside. */
function unbound(session: Buffer): Buffer {
  const mark = Buffer.from('\0nodejs:tls:session:1\0')
  if (!session.subarray(0, mark.length).equals(mark)) return session
  return session.subarray(mark.length + 2 + session.readUInt16BE(mark.length))
}

function connectTo({ gate, secure, ca }: Setting, host: string, options: ConnectionOptions = {}): Promise<TLSSocket> {
  return openTlsTunnel(gate.port, host, secure.port, ca, options)
}

async function ask(secured: TLSSocket, where: string): Promise<string> {
  secured.write(`GET / HTTP/1.1\r\nHost: ${where}\r\nConnection: close\r\n\r\n`)
  return readToEnd(secured)
}

/** A session that the gate issued for the host. */
async function sessionOf(setting: Setting, host: string, maxVersion: ConnectionOptions['maxVersion']): Promise<Buffer> {
  const secured = await connectTo(setting, host, { maxVersion })
  let session: Buffer | undefined = secured.getSession()
  secured.on('session', (later) => (session = later))
  assert.equal(secured.isSessionReused(), false)
  assert.match(await ask(secured, `${host}:${setting.secure.port}`), /^HTTP\/1\.1 200 /)
  assert.ok(session)
  return unbound(session)
}

for (const maxVersion of VERSIONS) {
  const offering = (session: Buffer): ConnectionOptions => ({ session, maxVersion, rejectUnauthorized: false })

  test(`I2 a session of one host resumes there, and in a tunnel to another gets that host's certificate and requests (${maxVersion})`, async () => {
    await using setting = await openSetting({ isBoth: true })
    const session = await sessionOf(setting, API, maxVersion)
    const [atApi, atOther] = [`${API}:${setting.secure.port}`, `${OTHER}:${setting.secure.port}`]

    const other = await connectTo(setting, OTHER, offering(session))
    assert.equal(other.isSessionReused(), false)
    assert.equal(other.getPeerCertificate().subjectaltname, `DNS:${OTHER}`)
    assert.match(await ask(other, atOther), /^HTTP\/1\.1 200 /)
    assert.match(await ask(await connectTo(setting, OTHER, offering(session)), atApi), /^HTTP\/1\.1 4\d\d /)
    const hosts = setting.secure.requests.map(({ rawHeaders }) => rawHeaders.join(' '))
    assert.equal(hosts.length, 2)
    assert.ok(hosts[1]?.includes(atOther) === true && !hosts[1].includes(CANARY), hosts[1])

    const api = await connectTo(setting, API, offering(session))
    assert.equal(api.isSessionReused(), true, 'what was offered is worth something, at its own host')
    assert.match(await ask(api, atApi), /^HTTP\/1\.1 200 /)
    assert.ok(setting.secure.requests.at(-1)?.rawHeaders.includes(`Bearer ${CANARY}`))
  })

  test(`I2 a session with the name of its host in a tunnel to another is refused (${maxVersion})`, async () => {
    await using setting = await openSetting({ isBoth: true })
    const session = await sessionOf(setting, API, maxVersion)
    const before = setting.secure.connections
    await assert.rejects(connectTo(setting, OTHER, { ...offering(session), servername: API }))
    assert.equal(setting.secure.connections, before)
    // Recorded before the connection is ended.
    assert.ok((await setting.gate.audit()).some(({ code, host }) => code === 'sni_mismatch' && host === OTHER))
  })

  test(`I2 a session without a name belongs to the tunnel's host (${maxVersion})`, async () => {
    await using setting = await openSetting({ isBoth: true })
    const session = await sessionOf(setting, API, maxVersion)
    const { socket } = await openTunnel(setting.gate.port, `${OTHER}:${setting.secure.port}`)
    const secured = connectTls({ socket, ...offering(session) })
    await new Promise((resolve, reject) => secured.once('secureConnect', resolve).once('error', reject))
    assert.equal(secured.isSessionReused(), false)
    assert.equal(secured.getPeerCertificate().subjectaltname, `DNS:${OTHER}`)
    secured.destroy()
  })

  test(`the session of one gate is worth nothing at another (${maxVersion})`, async () => {
    await using first = await openSetting()
    await using second = await openSetting()
    const session = await sessionOf(first, API, maxVersion)
    const secured = await connectTo(second, API, offering(session))
    assert.equal(secured.isSessionReused(), false)
    secured.destroy()
  })
}

test('a hundred connections to a host have one certificate and one set of tickets, and one connection upstream', async () => {
  await using setting = await openSetting()
  const session = await sessionOf(setting, API, 'TLSv1.3')
  const serials = new Set<string>()
  for (let i = 0; i < 10; i += 1) {
    const together = await Promise.all(Array.from({ length: 10 }, () => connectTo(setting, API)))
    for (const secured of together) {
      serials.add(secured.getPeerCertificate().serialNumber)
      assert.match(await ask(secured, `${API}:${setting.secure.port}`), /^HTTP\/1\.1 200 /)
    }
  }
  assert.equal(serials.size, 1)
  const last = await connectTo(setting, API, { session, rejectUnauthorized: false })
  assert.equal(last.isSessionReused(), true, 'its keys are those of the first')
  last.destroy()
  assert.equal(setting.secure.connections, 1)
})
