import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { LIMITS } from '../../kernel/limits.ts'
import type { System } from '../../kernel/system.ts'
import type { ContainerOptions, Engine } from './engine.ts'
import { harden } from './hardening.ts'

/** What an image trusts by itself. */
export type ImageRoots = {
  /** Its own roots as PEM; empty where it has none. */
  readonly pem: string
  /** Where it has a file of them: each gets ours as well. */
  readonly files: readonly string[]
}

/** In the order of preference. Debian, Ubuntu, Alpine, Arch; Fedora and RHEL; SUSE; OpenSSL's own place. */
const CANDIDATES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/var/lib/ca-certificates/ca-bundle.pem',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
]
/** Where programs look when an image has no file at all. */
const USUAL = '/etc/ssl/certs/ca-certificates.crt'

/**
 * The roots of an image, by its id, from `folder` where an earlier session has left them. Else they are read out of a container of
 * it that is made and never started, so that nothing of the image is run; `container` says how it is called and labelled.
 */
export async function imageRoots(
  engine: Pick<Engine, 'create' | 'readFile' | 'remove'>,
  image: string,
  folder: string,
  container: Pick<ContainerOptions, 'name' | 'Labels'> & { readonly runtime: string },
  system: Pick<System, 'random'>,
): Promise<ImageRoots> {
  const file = join(folder, `${createHash('sha256').update(image).digest('hex')}.json`)
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8')) as ImageRoots
  const id = await engine.create(idleContainer(image, container, container.runtime))
  try {
    const found: { path: string; pem: string }[] = []
    for (const path of CANDIDATES) {
      const content = (await engine.readFile(id, path))?.toString('latin1') ?? ''
      if (content.includes('-----BEGIN')) found.push({ path, pem: content })
    }
    const roots = { pem: found[0]?.pem ?? '', files: [...new Set([USUAL, ...found.map(({ path }) => path)])] }
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const temporary = `${file}.${system.random(8).toString('hex')}`
    writeFileSync(temporary, JSON.stringify(roots), { mode: 0o600, flag: 'wx' })
    renameSync(temporary, file)
    return roots
  } finally {
    await engine.remove(id)
  }
}

/** One to look at an image's files in: never started, and hardened nevertheless. */
export function idleContainer(
  image: string,
  { name, Labels }: Pick<ContainerOptions, 'name' | 'Labels'>,
  runtime: string,
): ContainerOptions {
  return harden({
    kind: 'probe',
    name,
    labels: Labels,
    image,
    user: { uid: 65_534, gid: 65_534 },
    command: ['/nothing'],
    folder: '/',
    environment: {},
    binds: [],
    scratch: [],
    network: { name: 'none' },
    memoryBytes: LIMITS.probeMemoryBytes,
    cpus: 1,
    processes: 1,
    runtime,
    tty: false,
    stdin: false,
    keepsLog: false,
  })
}
