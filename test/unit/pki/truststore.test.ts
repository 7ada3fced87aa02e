import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { rootCertificates } from 'node:tls'
import { createAuthority, javaTruststore, publishAuthority, TRUSTSTORE_PASSWORD } from '../../../src/pki/pki.ts'
import { temporaryFolder } from '../../support/audit.ts'
import { exec, hostname, serveLeaf, testSystem, without } from '../../support/pki.ts'

const system = testSystem()
const authority = createAuthority('s', system)
const fingerprints = (list: readonly string[]) => list.map((text) => new X509Certificate(text).fingerprint256).toSorted()

test('publishing writes ca.crt and truststore.p12 that all may read, and nothing else', async () => {
  await using folder = await temporaryFolder()
  const dir = join(folder.path, 'a', 'b')
  const umask = process.umask(0o077)
  await publishAuthority(dir, authority, rootCertificates, system)
  process.umask(umask)
  assert.deepEqual((await readdir(dir)).toSorted(), ['ca.crt', 'truststore.p12'])
  for (const name of ['ca.crt', 'truststore.p12']) assert.equal((await stat(join(dir, name))).mode & 0o777, 0o644)
  assert.equal(await readFile(join(dir, 'ca.crt'), 'utf8'), authority.certificatePem)
})

test('publishing again replaces both files', async () => {
  await using folder = await temporaryFolder()
  await publishAuthority(folder.path, authority, [], system)
  const next = createAuthority('s', system)
  const before = await readFile(join(folder.path, 'truststore.p12'))
  await publishAuthority(folder.path, next, [], system)
  assert.equal(await readFile(join(folder.path, 'ca.crt'), 'utf8'), next.certificatePem)
  assert.notDeepEqual(await readFile(join(folder.path, 'truststore.p12')), before)
  assert.deepEqual((await readdir(folder.path)).toSorted(), ['ca.crt', 'truststore.p12'])
})

test('a folder that cannot be written is config_invalid, and what could be written stays out of it', async () => {
  await using folder = await temporaryFolder()
  await writeFile(join(folder.path, 'file'), '')
  await assert.rejects(publishAuthority(join(folder.path, 'file'), authority, [], system), { code: 'config_invalid' })
  await mkdir(join(folder.path, 'dir', 'truststore.p12'), { recursive: true })
  await assert.rejects(publishAuthority(join(folder.path, 'dir'), authority, [], system), { code: 'config_invalid' })
  assert.deepEqual(await readdir(join(folder.path, 'dir')), ['truststore.p12'])
})

test(
  'OpenSSL reads every certificate from the trust store, and refuses a wrong password',
  { skip: without('openssl', 'version') },
  async () => {
    await using folder = await temporaryFolder()
    const file = join(folder.path, 'truststore.p12')
    await writeFile(file, javaTruststore([authority.certificatePem, ...rootCertificates], 'pass wörd', system))
    const read = async (password: string): Promise<string> => {
      const out = join(folder.path, 'out.pem')
      await exec('openssl', ['pkcs12', '-in', file, '-nokeys', '-passin', `pass:${password}`, '-out', out])
      return readFile(out, 'utf8')
    }
    const found = (await read('pass wörd')).match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
    assert.deepEqual(fingerprints(found), fingerprints([authority.certificatePem, ...rootCertificates]))
    await assert.rejects(read('wrong'), /Mac verify error|invalid password/)
  },
)

test('a certificate that is given twice, or in a bundle, is in the trust store once', () => {
  const bundle = `# comment\n${rootCertificates[0]}\n${rootCertificates[1]}\n`
  const fixed = { random: (bytes: number) => Buffer.alloc(bytes, 7) }
  const [once = '', twice = ''] = [
    [authority.certificatePem, rootCertificates[0] ?? '', rootCertificates[1] ?? ''],
    [authority.certificatePem, bundle, bundle, authority.certificatePem],
  ].map((list) => javaTruststore(list, 'x', fixed).toString('hex'))
  assert.equal(twice, once)
})

test(
  'keytool lists our authority as trusted, by its alias and fingerprint, beside all public roots',
  { skip: without('keytool', '-help') },
  async () => {
    await using folder = await temporaryFolder()
    await publishAuthority(folder.path, authority, rootCertificates, system)
    const { stdout } = await exec('keytool', ['-list', '-keystore', join(folder.path, 'truststore.p12'), '-storepass', TRUSTSTORE_PASSWORD])
    const spelled = (authority.fingerprint.match(/../g) ?? []).join(':').toUpperCase()
    assert.match(stdout, new RegExp(`^sallyport, .*trustedCertEntry, *\\n.*\\(SHA-256\\): ${spelled}$`, 'm'))
    assert.equal(stdout.match(/trustedCertEntry/g)?.length, 1 + new Set(rootCertificates).size)
  },
)

/** What a Java program does that knows nothing of us: the default context, host names checked. */
const JAVA = `
import java.io.*; import java.net.*; import java.security.*; import java.util.*; import javax.net.ssl.*;
public class Connect {
  public static void main(String[] a) throws Exception {
    try (Socket plain = new Socket("127.0.0.1", Integer.parseInt(a[0]));
         SSLSocket tls = (SSLSocket) ((SSLSocketFactory) SSLSocketFactory.getDefault()).createSocket(plain, a[1], 443, true)) {
      SSLParameters p = tls.getSSLParameters();
      p.setEndpointIdentificationAlgorithm("HTTPS");
      tls.setSSLParameters(p);
      System.out.println(new String(tls.getInputStream().readNBytes(5)));
    } catch (SSLException e) { System.out.println("refused: " + e.getMessage()); }
  }
}
`

test(
  'a Java program with the trust store connects to our leaf by name and address, to no other name, and without the store not at all',
  { skip: without('java', '-version') },
  async () => {
    await using folder = await temporaryFolder()
    await publishAuthority(folder.path, authority, rootCertificates, system)
    const source = join(folder.path, 'Connect.java')
    await writeFile(source, JAVA)
    const store = ['', 'Password', 'Type'].map(
      (part, n) => `-Djavax.net.ssl.trustStore${part}=${[join(folder.path, 'truststore.p12'), TRUSTSTORE_PASSWORD, 'PKCS12'][n] ?? ''}`,
    )
    const java = async (options: string[], port: number, name: string) =>
      (await exec('java', [...options, source, String(port), name])).stdout.trim()
    await using byName = await serveLeaf(authority, hostname('api.example.com'))
    await using byAddress = await serveLeaf(authority, hostname('127.0.0.1'))
    const [name, address, wrong, untrusted] = await Promise.all([
      java(store, byName.port, 'api.example.com'),
      java(store, byAddress.port, '127.0.0.1'),
      java(store, byName.port, 'www.example.com'),
      java([], byName.port, 'api.example.com'),
    ])
    assert.equal(name, 'hello')
    assert.equal(address, 'hello')
    assert.match(wrong ?? '', /^refused: .*www\.example\.com/)
    assert.match(untrusted ?? '', /^refused: /)
  },
)
