import { chmodSync, chownSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { javaTruststore, TRUSTSTORE_PASSWORD } from '../../pki/pki.ts'
import { codeOf } from '../../kernel/errors.ts'
import type { System } from '../../kernel/system.ts'
import { rootCertificates } from 'node:tls'
import { AGENT_HOME } from './agent-environment.ts'
import { writeAgentFiles, writeResolver, type Owner } from './agent-files.ts'
import type { Bind } from './hardening.ts'
import type { ImageRoots } from './image-roots.ts'
import type { SessionPlan } from './session-parts.ts'

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** The folder of a session, with one for each container's part. */
export function makeSessionFolder(folder: string): void {
  const inTrust = IN_TRUST.map((name) => join('trust', name))
  for (const path of [folder, ...['agent', 'files', 'output', 'policy', 'trust', ...inTrust].map((name) => join(folder, name))]) {
    mkdirSync(path, { recursive: true })
    // The folder keeps others of the host out; what lies in it is read by another uid, by the mounts alone.
    chmodSync(path, path === folder ? 0o700 : 0o755)
  }
}

/** What else is mounted where the trust is: the engine makes no folder below a read-only mount. */
export const IN_TRUST = ['output', 'pinned'] as const

/** The user's entry, the resolver, and the worthless credentials of the agent. */
export function writeAgentPart(folder: string, gate: string, owner: Owner, files: SessionPlan['agent']['files']): Bind[] {
  const agent = join(folder, 'agent')
  writeAgentFiles(agent, owner, { values: {}, files: [] })
  writeResolver(agent, gate)
  const names = ['passwd', 'group', 'resolv.conf']
  const mounted = files.filter(({ isRewritten }) => isRewritten !== true)
  for (const { name, content } of mounted) {
    writeFileSync(join(folder, 'files', name), content, { mode: 0o600 })
    own(join(folder, 'files', name), owner)
  }
  const copies = join(folder, 'copies')
  for (const { path, content } of files.filter(({ isRewritten }) => isRewritten)) writeCopied(copies, path, content, owner)
  return [
    ...names.map((name) => ({ source: join(agent, name), target: `/etc/${name}`, readOnly: true })),
    ...mounted.map(({ name, path }) => ({ source: join(folder, 'files', name), target: `${AGENT_HOME}/${path}`, readOnly: true })),
    ...(mounted.length === files.length ? [] : [{ source: copies, target: HOME_COPIES, readOnly: true }]),
  ]
}

/** Where the agent's first program finds what it copies to HOME. */
export const HOME_COPIES = '/opt/sallyport-home'

function writeCopied(copies: string, path: string, content: string, owner: Owner): void {
  const file = join(copies, path)
  mkdirSync(dirname(file), { recursive: true, mode: 0o755 })
  writeFileSync(file, content, { mode: 0o600 })
  own(file, owner)
}

/** Folders of HOME that hold such files: the engine would make them for root, and programs keep more there. */
export function foldersOf(files: SessionPlan['agent']['files']): string[] {
  return [...new Set(files.map(({ path }) => dirname(path)).filter((parent) => parent !== '.'))].map((parent) => `${AGENT_HOME}/${parent}`)
}

/** What the agent trusts: the roots of its image and the session's authority, in every place where programs look. */
export function writeTrust(folder: string, roots: ImageRoots, certificatePem: string, system: Pick<System, 'random'>): Bind[] {
  const trust = join(folder, 'trust')
  const authority = authorityText(certificatePem)
  const known = roots.pem.match(CERTIFICATE) ?? []
  publish(join(trust, 'bundle.crt'), roots.pem === '' ? authority : `${roots.pem.trimEnd()}\n${authority}`)
  publish(join(trust, 'ca.crt'), authority)
  publish(
    join(trust, 'truststore.p12'),
    // A JVM has one store: without roots of the image those that Node brings.
    javaTruststore([authority, ...(known.length > 0 ? known : rootCertificates)], TRUSTSTORE_PASSWORD, system),
  )
  return [
    { source: trust, target: '/sallyport', readOnly: true },
    ...roots.files.map((target) => ({ source: join(trust, 'bundle.crt'), target, readOnly: true })),
  ]
}

/** Whether an authority is the one that `writeTrust` wrote last. */
export function isTrusted(folder: string, certificatePem: string): boolean {
  try {
    return readFileSync(join(folder, 'trust', 'ca.crt'), 'utf8') === authorityText(certificatePem)
  } catch {
    return false
  }
}

function authorityText(certificatePem: string): string {
  return `${certificatePem.trimEnd()}\n`
}

/** Readable by the container's uid, whatever the umask is. In place: a file that is mounted stays the one that is mounted. */
function publish(file: string, content: string | Uint8Array): void {
  writeFileSync(file, content)
  chmodSync(file, 0o644)
}

/** Programs want such a file to be their user's and nobody else's to read. Only root can give it away. */
function own(file: string, { uid, gid }: Owner): void {
  chmodSync(file, 0o600)
  if (process.getuid?.() === 0) chownSync(file, uid, gid)
}

/** Of a folder that need not be there. */
export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return []
    throw error
  }
}
