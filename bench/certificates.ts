import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { run } from '../scripts/steps.ts'
import { inWork } from './places.ts'

const EC = ['ec', '-pkeyopt', 'ec_paramgen_curve:P-256']
const UPSTREAM_EXTENSIONS = 'subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n'

/** Makes, once, an authority for the upstream with the upstream's certificate, and one for peers that intercept. @throws SetupError */
export async function makeCertificates(): Promise<void> {
  const folder = inWork('ca')
  mkdirSync(folder, { recursive: true })
  const within = (name: string): string => path.join(folder, name)
  await makeAuthority(within('upstream-ca'), 'bench upstream CA', EC)
  // RSA: what the peers were made with when their figures were tuned, and what mockttp wants.
  await makeAuthority(within('mitm'), 'bench interception CA', ['rsa:2048'])
  if (!existsSync(within('upstream-chain.pem'))) {
    writeFileSync(within('upstream.ext'), UPSTREAM_EXTENSIONS)
    const request = ['-nodes', '-keyout', within('upstream.key'), '-out', within('upstream.csr'), '-subj', '/CN=localhost']
    await run('openssl', ['req', '-newkey', ...EC, ...request])
    const authority = ['-CA', within('upstream-ca.pem'), '-CAkey', within('upstream-ca.key'), '-CAcreateserial']
    const life = ['-days', '3650', '-extfile', within('upstream.ext')]
    await run('openssl', ['x509', '-req', '-in', within('upstream.csr'), ...authority, ...life, '-out', within('upstream.pem')])
    const chain = ['upstream.pem', 'upstream-ca.pem'].map((name) => readFileSync(within(name), 'utf8')).join('')
    writeFileSync(within('upstream-chain.pem'), chain)
  }
  // squid reads it as a user of its own; it signs for nothing but this benchmark.
  chmodSync(within('mitm.key'), 0o644)
}

async function makeAuthority(file: string, name: string, key: readonly string[]): Promise<void> {
  if (existsSync(`${file}.pem`)) return
  const extensions = ['basicConstraints=critical,CA:TRUE', 'keyUsage=critical,keyCertSign,cRLSign'].flatMap((one) => ['-addext', one])
  const files = ['-nodes', '-keyout', `${file}.key`, '-out', `${file}.pem`]
  await run('openssl', ['req', '-x509', '-newkey', ...key, ...files, '-days', '3650', '-subj', `/CN=${name}`, ...extensions])
}
