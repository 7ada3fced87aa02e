import { createHash, randomFillSync } from 'node:crypto'
import {
  chownSync,
  closeSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  statfsSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import path from 'node:path'
import { capture, run } from '../scripts/steps.ts'
import { findProgram } from './packages.ts'
import { BENCH, PORTS, TOKEN, WORK, inWork } from './places.ts'

const SHARED_MEMORY = '/dev/shm'
const GIB = 1024 ** 3
const isRoot = process.getuid?.() === 0

/** A template with its `@NAME@`s filled in. @throws Error for a name that has no value: a configuration with a hole may still start. */
export function fillTemplate(template: string, values: Readonly<Record<string, string>>): string {
  return template.replaceAll(/@([A-Z0-9_]+)@/g, (_whole, name: string) => {
    const value = values[name]
    if (value === undefined) throw new Error(`the template asks for ${name}, which has no value`)
    return value
  })
}

/** Writes the configuration of nginx and of every peer that has one, for this work folder, these ports and this user. */
export async function writeConfiguration(www: string): Promise<void> {
  const isIpv6 = (await capture('getent', ['ahostsv6', 'localhost'])).stdout.startsWith('::1 ')
  const values = {
    WORK,
    WWW: www,
    PORTS,
    TOKEN,
    // Where localhost is ::1 too, the upstream is there as well.
    IPV6: isIpv6 ? '' : '#',
    ROOT_ONLY: isRoot ? '' : '#',
    UNPRIVILEGED: isRoot ? 'nobody' : (await capture('id', ['-un'])).stdout.trim(),
    SQUID_CERTGEN: squidCertgen() ?? 'none',
  }
  for (const name of readdirSync(path.join(BENCH, 'conf'))) {
    const text = fillTemplate(readFileSync(path.join(BENCH, 'conf', name), 'utf8'), values)
    writeFileSync(inWork('conf', name.replace(/\.in$/, '')), text)
  }
}

/** The files that the upstream serves, in memory where there is room: from a disk a gigabyte would measure the disk. Gives their folder. */
export function makeWebRoot(): string {
  const name = `sallyport-bench-${createHash('sha256').update(WORK).digest('hex').slice(0, 10)}`
  const inMemory = path.join(SHARED_MEMORY, name)
  const www = existsSync(inMemory) || hasRoom() ? inMemory : inWork('www')
  mkdirSync(www, { recursive: true })
  writeFileSync(path.join(www, '1k.json'), `{"data":"${'x'.repeat(1013)}"}`)
  makeFile(path.join(www, '64k.bin'), 64 * 1024)
  makeFile(path.join(www, '1g.bin'), GIB)
  writeFileSync(inWork('www.path'), www)
  return www
}

/** What single peers need besides a file of configuration. Gives those that cannot be had, with the reason. */
export async function preparePeers(peers: readonly string[]): Promise<Map<string, string>> {
  const skipped = new Map<string, string>()
  for (const name of ['http-mitm-proxy', 'mitmproxy']) mkdirSync(inWork('run', name), { recursive: true })
  if (peers.includes('squid') && findProgram('squid') !== undefined) {
    const certgen = squidCertgen()
    if (certgen === undefined) skipped.set('squid', 'this squid has no security_file_certgen (squid-openssl has it)')
    else await prepareSquid(certgen)
  }
  if (peers.includes('trafficserver') && findProgram('traffic_server') !== undefined) {
    if (existsSync('/etc/trafficserver')) await prepareTrafficserver()
    else skipped.set('trafficserver', 'there is no /etc/trafficserver to copy its other files from')
  }
  return skipped
}

async function prepareSquid(certgen: string): Promise<void> {
  mkdirSync(inWork('run/squid'), { recursive: true })
  if (!existsSync(inWork('run/squid/ssl_db'))) await run(certgen, ['-c', '-s', inWork('run/squid/ssl_db'), '-M', '16MB'])
  writeFileSync(inWork('log/squid-cache.log'), '')
  await handOver('proxy', ['run/squid', 'log/squid-cache.log'])
}

async function prepareTrafficserver(): Promise<void> {
  const etc = inWork('run/trafficserver/etc')
  for (const name of ['etc', 'log', 'var']) mkdirSync(inWork('run/trafficserver', name), { recursive: true })
  cpSync('/etc/trafficserver', etc, { recursive: true, dereference: true })
  rmSync(path.join(etc, 'records.yaml'), { force: true })
  cpSync(inWork('conf/trafficserver.config'), path.join(etc, 'records.config'))
  await handOver('trafficserver', ['run/trafficserver'])
}

/** Gives files to the user that a daemon becomes when it drops root. */
async function handOver(user: string, names: readonly string[]): Promise<void> {
  if (!isRoot) return
  const [uid, gid] = await Promise.all(['-u', '-g'].map(async (flag) => Number((await capture('id', [flag, user])).stdout.trim() || NaN)))
  if (uid === undefined || gid === undefined || Number.isNaN(uid + gid)) return
  for (const name of names) {
    const root = inWork(name)
    const below = lstatSync(root).isDirectory() ? readdirSync(root, { recursive: true, encoding: 'utf8' }) : []
    for (const file of [root, ...below.map((one) => path.join(root, one))]) chownSync(file, uid, gid)
  }
}

function squidCertgen(): string | undefined {
  return ['/usr/lib/squid', '/usr/lib64/squid', '/usr/libexec/squid']
    .map((folder) => path.join(folder, 'security_file_certgen'))
    .find((file) => existsSync(file))
}

function hasRoom(): boolean {
  if (!existsSync(SHARED_MEMORY)) return false
  const { bavail, bsize } = statfsSync(SHARED_MEMORY)
  return bavail * bsize > 1.5 * GIB
}

/** Random bytes: nothing on the way may gain by compressing them. */
function makeFile(file: string, bytes: number): void {
  if (existsSync(file) && statSync(file).size === bytes) return
  const block = Buffer.alloc(Math.min(bytes, 16 * 1024 * 1024))
  const fd = openSync(file, 'w')
  for (let at = 0; at < bytes; at += block.length) writeSync(fd, randomFillSync(block))
  closeSync(fd)
}
