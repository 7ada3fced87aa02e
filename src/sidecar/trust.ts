import { constants } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { codeOf, SallyportError } from '../kernel/errors.ts'

/**
 * The roots that upstreams are verified against: the system's, else Node's own, plus the operator's files.
 * @throws ca_file_invalid
 */
export async function loadTrust(files: readonly string[]): Promise<{ trust: SecureContext; publicRoots: string[] }> {
  // Where a folder has links to its files, as Debian's does, each certificate comes four times: 35 ms and 10 MB.
  const system = [...new Set(getCACertificates('system'))]
  const publicRoots = system.length > 0 ? system : getCACertificates('bundled')
  const extra: string[] = []
  for (const file of files) {
    const pem = await readFile(file, 'utf8').catch((cause: unknown) => {
      throw new SallyportError('ca_file_invalid', `${file} cannot be read (${codeOf(cause)})`, { hint: 'give a readable PEM file', cause })
    })
    const certificates = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
    if (certificates.length === 0 && pem.trim() !== '') {
      throw new SallyportError('ca_file_invalid', `${file} holds no certificate`, { hint: 'give a file of PEM certificates' })
    }
    extra.push(...certificates)
  }
  try {
    return {
      trust: createSecureContext({
        ca: [...publicRoots, ...extra],
        minVersion: 'TLSv1.2',
        secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
      }),
      publicRoots,
    }
  } catch (cause) {
    throw new SallyportError('ca_file_invalid', `a certificate in ${files.join(', ')} cannot be read`, { cause })
  }
}
