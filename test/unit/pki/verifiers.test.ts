import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { connect } from 'node:tls'
import { createAuthority } from '../../../src/pki/pki.ts'
import { temporaryFolder } from '../../support/audit.ts'
import { exec, hostname, serveLeaf, testSystem, without } from '../../support/pki.ts'

const LONG = hostname(`${'a'.repeat(40)}.${'b'.repeat(40)}.example.com`)

const HOSTS = [
  { host: hostname('api.example.com'), kind: 'hostname', wrong: 'www.example.com' },
  { host: LONG, kind: 'hostname', wrong: `${'a'.repeat(40)}.example.com` },
  { host: hostname('xn--bcher-kva.example'), kind: 'hostname', wrong: 'bucher.example' },
  { host: hostname('127.0.0.1'), kind: 'ip', wrong: '127.0.0.2' },
  { host: hostname('::1'), kind: 'ip', wrong: '::2' },
] as const

for (const { host, kind, wrong } of HOSTS) {
  test(`OpenSSL in strict mode verifies the leaf of ${host}, and not for ${wrong}`, { skip: without('openssl', 'version') }, async () => {
    await using folder = await temporaryFolder()
    const authority = createAuthority('s', testSystem())
    const [ca, leaf] = [join(folder.path, 'ca.crt'), join(folder.path, 'leaf.crt')]
    await writeFile(ca, authority.certificatePem)
    await writeFile(leaf, authority.leafFor(host).certPem)
    const verify = (name: string) =>
      exec('openssl', ['verify', '-x509_strict', '-purpose', 'sslserver', '-CAfile', ca, `-verify_${kind}`, name, leaf])
    assert.match((await verify(host)).stdout, /: OK$/m)
    await assert.rejects(verify(wrong), /mismatch/)
  })
}

async function extensions(text: string, file: string): Promise<string> {
  await writeFile(file, text)
  const { stdout } = await exec('openssl', ['x509', '-in', file, '-noout', '-text'])
  return stdout.slice(stdout.indexOf('X509v3 extensions'), stdout.indexOf('Signature Algorithm', 600)).replaceAll(/[ \t]+/g, ' ')
}

test('OpenSSL reads the extensions of authority and leaf as they are meant', { skip: without('openssl', 'version') }, async () => {
  await using folder = await temporaryFolder()
  const authority = createAuthority('s', testSystem())
  const ca = await extensions(authority.certificatePem, join(folder.path, 'ca.crt'))
  const leaf = await extensions(authority.leafFor(hostname('api.example.com')).certPem, join(folder.path, 'leaf.crt'))
  const nameless = await extensions(authority.leafFor(LONG).certPem, join(folder.path, 'long.crt'))
  assert.match(ca, /Basic Constraints: critical\n CA:TRUE, pathlen:0\n X509v3 Key Usage: critical\n Certificate Sign, CRL Sign\n/)
  assert.match(
    leaf,
    /CA:FALSE\n X509v3 Key Usage: critical\n Digital Signature\n X509v3 Extended Key Usage: \n TLS Web Server Authentication\n/,
  )
  assert.match(leaf, /Subject Alternative Name: \n DNS:api\.example\.com\n/)
  assert.match(nameless, new RegExp(`Subject Alternative Name: critical\\n DNS:${LONG}\\n`))
  const keyId = /X509v3 Subject Key Identifier: \n ((?:[0-9A-F]{2}:){19}[0-9A-F]{2})\n/.exec(ca)?.[1]
  assert.ok(keyId !== undefined)
  assert.match(leaf, new RegExp(`Authority Key Identifier: \\n (?:keyid:)?${keyId}\\n`))
  assert.doesNotMatch(ca + leaf, /OCSP|CRL Distribution|Authority Information/)
})

for (const { host, kind, wrong } of HOSTS) {
  test(`Node completes a TLS handshake with ${host}, and refuses it as ${wrong} and without the authority`, async () => {
    const authority = createAuthority('s', testSystem())
    await using server = await serveLeaf(authority, host)
    const handshake = async (name: string, ca?: string): Promise<void> => {
      const socket = connect({
        host: '127.0.0.1',
        port: server.port,
        ...(kind === 'hostname' ? { servername: name } : {}),
        // For an address Node checks `host`, which is the one that is dialled: check the one that is meant.
        ...(kind === 'ip' ? { checkServerIdentity: (_, { subjectaltname }) => wrongAddress(subjectaltname, name) } : {}),
        ...(ca === undefined ? {} : { ca }),
      })
      try {
        await once(socket, 'secureConnect')
      } finally {
        socket.destroy()
      }
    }
    await handshake(host, authority.certificatePem)
    await assert.rejects(handshake(wrong, authority.certificatePem), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
    await assert.rejects(handshake(host), { code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' })
  })
}

function wrongAddress(names: string | undefined, address: string): Error | undefined {
  const spelled = address === '::1' ? '0:0:0:0:0:0:0:1' : address
  return names === `IP Address:${spelled}` ? undefined : Object.assign(new Error('wrong'), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' })
}

test('Node completes a TLS handshake with 127.0.0.1 by its own check of the address', async () => {
  const authority = createAuthority('s', testSystem())
  await using server = await serveLeaf(authority, hostname('127.0.0.1'))
  const socket = connect({ host: '127.0.0.1', port: server.port, ca: authority.certificatePem })
  await once(socket, 'secureConnect')
  assert.equal(socket.authorized, true)
  socket.destroy()
})

/** Connects in Python's strictest mode and prints what the server says. */
const PYTHON = `
import socket, ssl, sys
port, name, ca = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)
context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
with socket.create_connection(('127.0.0.1', int(port))) as plain:
    with context.wrap_socket(plain, server_hostname=name) as tls:
        print(tls.recv(5).decode())
`

for (const { host, wrong } of HOSTS) {
  test(`Python in strict mode connects to ${host}, and not to ${wrong}`, { skip: without('python3', '--version') }, async () => {
    await using folder = await temporaryFolder()
    const authority = createAuthority('s', testSystem())
    const ca = join(folder.path, 'ca.crt')
    await writeFile(ca, authority.certificatePem)
    await using server = await serveLeaf(authority, host)
    const python = (name: string) => exec('python3', ['-c', PYTHON, String(server.port), name, ca])
    assert.equal((await python(host)).stdout.trim(), 'hello')
    await assert.rejects(python(wrong), /CERTIFICATE_VERIFY_FAILED/)
  })
}
