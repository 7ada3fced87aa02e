import { createHash, randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { capture } from '../../scripts/steps.ts'
import { createAuthority } from '../../src/pki/pki.ts'
import { system } from '../../src/kernel/system.ts'
import { AGENT_IMAGE } from './controller-sessions.ts'
import { eventually } from './eventually.ts'
import { hostname } from './pki.ts'

const PROGRAM = join(import.meta.dirname, 'container-upstream.mjs')

export type Seen = { readonly host: string; readonly path: string; readonly seen: string }

/** HTTPS services in one container, under several names, with an authority of their own. */
export type ContainerUpstream = AsyncDisposable & {
  /** PEM file of the authority. */
  readonly authorityFile: string
  /** On a session's uplink, which is no place for others: the controller takes a session down on which it finds one when it looks. */
  join(uplink: string): Promise<void>
  leave(uplink: string): Promise<void>
  /** Each request that came, oldest first. */
  saw(): Promise<readonly Seen[]>
}

/** What answers: where its files are for `docker run`, and what is run. It says `{"event":"ready"}`, and a line of JSON a request. */
export type UpstreamProgram = { readonly mounts: readonly string[]; readonly argv: readonly string[] }

const ECHO: UpstreamProgram = { mounts: ['-v', `${PROGRAM}:/upstream.mjs:ro`], argv: ['node', '/upstream.mjs'] }

export async function openContainerUpstream(hosts: readonly string[], program = ECHO): Promise<ContainerUpstream> {
  const folder = await mkdtemp(join(tmpdir(), 'sallyport-upstream-'))
  const authority = createAuthority('upstream', system)
  const authorityFile = join(folder, 'ca.pem')
  writeFileSync(authorityFile, authority.certificatePem)
  for (const host of hosts) {
    const { certPem, keyPem } = authority.leafFor(hostname(host))
    writeFileSync(join(folder, `${host}.crt`), certPem)
    writeFileSync(join(folder, `${host}.key`), keyPem)
  }
  const name = `upstream-${randomBytes(6).toString('hex')}`
  const mounts = [...program.mounts, '-v', `${folder}:/certificates:ro`]
  await mustRun('run', '-d', '--label', 'sallyport.test=upstream', '--name', name, '--user', '0:0', ...mounts, AGENT_IMAGE, ...program.argv)
  const lines = async (): Promise<Record<string, string>[]> => {
    const { stdout } = await capture('docker', ['logs', name])
    return stdout
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Record<string, string>)
  }
  const remove = async (): Promise<void> => {
    await capture('docker', ['rm', '-f', name])
    await rm(folder, { recursive: true, force: true })
  }
  try {
    await eventually(async () => {
      if (!(await lines()).some(({ event }) => event === 'ready')) throw new Error('the upstream is not ready')
    })
  } catch (error) {
    await remove()
    throw error
  }
  return {
    authorityFile,
    join: async (uplink) => void (await mustRun('network', 'connect', ...hosts.flatMap((host) => ['--alias', host]), uplink, name)),
    leave: async (uplink) => void (await mustRun('network', 'disconnect', uplink, name)),
    saw: async () => (await lines()).filter(({ path }) => path !== undefined) as unknown as Seen[],
    [Symbol.asyncDispose]: remove,
  }
}

/** What the upstream tells of a request that carried this Authorization. */
export function seenOf(authorization: string): string {
  return createHash('sha256').update(authorization).digest('hex')
}

async function mustRun(...argv: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await capture('docker', argv)
  if (code !== 0) throw new Error(`docker ${argv.join(' ')}: ${stderr}`)
  return stdout
}
