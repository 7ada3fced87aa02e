import { mkdir } from 'node:fs/promises'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { system as realSystem, type System } from '../kernel/system.ts'
import { makeAuthority, type Authority } from './authority.ts'
import { pem } from './der.ts'
import { replaceFile } from './files.ts'
import { javaTruststore } from './truststore.ts'

export { createAuthority, type Authority } from './authority.ts'
export { authorityFrom, openAuthority } from './keep.ts'
export { javaTruststore } from './truststore.ts'

/** A new authority as PEM texts, for a session whose gates come and go. In memory only. I11 */
export function makeAuthorityPems(session: string, system: Pick<System, 'now' | 'random'>): { certificatePem: string; keyPem: string } {
  const { issuer, certificate } = makeAuthority(session, system)
  return {
    certificatePem: pem('CERTIFICATE', certificate.raw),
    keyPem: issuer.key.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

/** What everybody takes for the password of a trust store: nothing in it is secret. */
export const TRUSTSTORE_PASSWORD = 'changeit'

/**
 * Writes the public part for agents: `dir/ca.crt` (PEM) and `dir/truststore.p12` (ours and the public roots, since a
 * JVM has one trust store), mode 0644, each whole or not at all. Makes `dir` where it does not exist.
 *
 * @throws config_invalid when they cannot be written.
 */
export async function publishAuthority(
  dir: string,
  authority: Authority,
  publicRootsPem: readonly string[],
  system: Pick<System, 'random'> = realSystem,
): Promise<void> {
  const truststore = javaTruststore([authority.certificatePem, ...publicRootsPem], TRUSTSTORE_PASSWORD, system)
  try {
    await mkdir(dir, { recursive: true })
    await replaceFile(dir, 'truststore.p12', truststore, system)
    await replaceFile(dir, 'ca.crt', authority.certificatePem, system)
  } catch (cause) {
    throw new SallyportError('config_invalid', `the CA cannot be published in ${dir} (${codeOf(cause)})`, {
      hint: 'name a writable folder',
      cause,
    })
  }
}
