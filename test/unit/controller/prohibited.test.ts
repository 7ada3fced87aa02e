import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { OWN_VARIABLES } from '../../../src/controller/sessions/agent-environment.ts'
import {
  checkedSource,
  checkedTarget,
  guardedPlaces,
  movedSources,
  type GuardedPlaces,
} from '../../../src/controller/sessions/mount-sources.ts'
import { PROHIBITIONS, refuseImage, refuseProhibited, refuseVariables } from '../../../src/controller/sessions/prohibited.ts'

/** Every setting by its name of a compose file, a command line or the engine's API. */
const ASKED: readonly { readonly settings: Record<string, unknown>; readonly named: string }[] = [
  { settings: { privileged: true }, named: 'privileged' },
  { settings: { Privileged: true }, named: 'privileged' },
  { settings: { '--privileged': true }, named: 'privileged' },
  { settings: { pid: 'host' }, named: 'pid' },
  { settings: { pid_mode: 'container:x' }, named: 'pid' },
  { settings: { PidMode: 'host' }, named: 'pid' },
  { settings: { network_mode: 'host' }, named: 'network_mode' },
  { settings: { network: 'bridge' }, named: 'network_mode' },
  { settings: { NetworkMode: 'container:x' }, named: 'network_mode' },
  { settings: { ipc: 'host' }, named: 'ipc' },
  { settings: { IpcMode: 'shareable' }, named: 'ipc' },
  { settings: { uts: 'host' }, named: 'uts' },
  { settings: { userns_mode: 'host' }, named: 'userns_mode' },
  { settings: { '--userns': 'host' }, named: 'userns_mode' },
  { settings: { cgroup: 'host' }, named: 'cgroup' },
  { settings: { cgroup_parent: '/x' }, named: 'cgroup' },
  { settings: { CgroupnsMode: 'host' }, named: 'cgroup' },
  { settings: { devices: ['/dev/sda'] }, named: 'devices' },
  { settings: { gpus: 'all' }, named: 'devices' },
  { settings: { DeviceRequests: [{}] }, named: 'devices' },
  { settings: { device_cgroup_rules: ['a *:* rwm'] }, named: 'devices' },
  { settings: { cap_add: ['NET_ADMIN'] }, named: 'cap_add' },
  { settings: { CapAdd: ['ALL'] }, named: 'cap_add' },
  { settings: { cap_drop: ['NET_RAW'] }, named: 'cap_drop' },
  { settings: { security_opt: ['seccomp=unconfined'] }, named: 'security_opt' },
  { settings: { SecurityOpt: ['apparmor=unconfined'] }, named: 'security_opt' },
  { settings: { 'security-opt': ['no-new-privileges:false'] }, named: 'security_opt' },
  { settings: { apparmor: 'unconfined' }, named: 'security_opt' },
  { settings: { sysctls: { 'net.ipv6.conf.all.disable_ipv6': '0' } }, named: 'sysctls' },
  { settings: { volumes_from: ['other'] }, named: 'volumes_from' },
  { settings: { volumes: ['/:/host'] }, named: 'volumes' },
  { settings: { Binds: ['/var/run/docker.sock:/s'] }, named: 'volumes' },
  { settings: { tmpfs: ['/etc'] }, named: 'volumes' },
  { settings: { read_only: false }, named: 'read_only' },
  { settings: { ReadonlyRootfs: false }, named: 'read_only' },
  { settings: { ports: ['80:80'] }, named: 'ports' },
  { settings: { publish_all_ports: true }, named: 'ports' },
  { settings: { links: ['db'] }, named: 'links' },
  { settings: { dns: ['8.8.8.8'] }, named: 'dns' },
  { settings: { extra_hosts: ['host:1.2.3.4'] }, named: 'dns' },
  { settings: { group_add: ['docker'] }, named: 'group_add' },
  { settings: { MaskedPaths: ['/x'] }, named: 'masked_paths' },
  { settings: { oom_kill_disable: true }, named: 'oom' },
  { settings: { ulimits: { core: 1 } }, named: 'ulimits' },
  { settings: { restart: 'always' }, named: 'restart' },
  { settings: { logging: { driver: 'syslog' } }, named: 'logging' },
  { settings: { entrypoint: ['/bin/sh'] }, named: 'entrypoint' },
  { settings: { healthcheck: { test: 'x' } }, named: 'entrypoint' },
  { settings: { labels: { 'sallyport.session': 'x' } }, named: 'labels' },
  { settings: { init: false }, named: 'init' },
]

for (const { settings, named } of ASKED) {
  test(`I14 ${JSON.stringify(settings)} is refused as ${named}, with the reason`, () => {
    const reason = PROHIBITIONS.find(({ setting }) => setting === named)?.reason ?? ''
    assert.notEqual(reason, '')
    assert.throws(
      () => refuseProhibited(settings),
      (error: Error & { code?: string }) =>
        error.code === 'config_prohibited' && error.message.startsWith(`${named} (`) && error.message.endsWith(reason),
    )
  })
}

test('every prohibition has an example that is refused', () => {
  assert.deepEqual(
    PROHIBITIONS.map(({ setting }) => setting).filter((setting) => !ASKED.some(({ named }) => named === setting)),
    [],
  )
})

test('what asks for nothing may stand there, and so may what a session can be given', () => {
  refuseProhibited({
    privileged: false,
    cap_add: [],
    pid: 'private',
    ipc: '',
    read_only: true,
    cap_drop: ['ALL'],
    init: true,
    devices: null,
  })
  refuseProhibited({
    image: 'x',
    memory: '4g',
    cpus: 2,
    pids: 100,
    runtime: 'runsc',
    seccomp: 'x.json',
    user: '0:0',
    environment: {},
    mounts: [],
  })
})

test('a setting that nobody knows is refused, with the one that is near', () => {
  assert.throws(() => refuseProhibited({ memroy: '4g' }), { code: 'config_invalid', hint: 'is "memory" meant?' })
})

for (const name of [
  'DOCKER_HOST',
  'docker_host',
  'DOCKER_CONTEXT',
  'DOCKER_TLS_VERIFY',
  'DOCKER_CERT_PATH',
  'CONTAINER_HOST',
  'BUILDKIT_HOST',
  'CONTAINERD_ADDRESS',
  'HTTPS_PROXY',
  'SALLYPORT_LEASE',
  'SSL_CERT_FILE',
  'a b',
  '',
])
  test(`I14 the variable ${JSON.stringify(name)} is refused`, () =>
    assert.throws(() => refuseVariables([name], OWN_VARIABLES), { code: 'config_prohibited' }))

test('other variables are not refused', () => refuseVariables(['ANTHROPIC_MODEL', 'TERM', 'GIT_CONFIG_COUNT'], OWN_VARIABLES))

for (const { volumes = [], labels = {}, why } of [
  { volumes: ['/etc'], why: 'a volume over the system' },
  { volumes: ['/'], why: 'a volume over all' },
  { volumes: ['/sallyport/'], why: 'a volume over the trust' },
  { volumes: ['/data/../etc'], why: 'a volume that climbs' },
  { labels: { 'sallyport.home': 'x' }, why: 'a label that makes containers look like ours' },
])
  test(`I14 an image with ${why} is refused`, () =>
    assert.throws(() => refuseImage('evil', { volumes, labels }), { code: 'config_prohibited', message: /^the image evil/ }))

test('an image with volumes of its own is not refused: they are covered', () =>
  refuseImage('postgres', { volumes: ['/var/lib/postgresql/data'], labels: { maintainer: 'x' } }))

let folder: string
let places: GuardedPlaces
const server = createServer()

before(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'sallyport-mounts-')))
  for (const name of ['home', 'user/.ssh', 'user/project', 'engine/run', 'plain', 'late'])
    mkdirSync(join(folder, name), { recursive: true })
  writeFileSync(join(folder, 'plain/file'), '')
  symlinkSync('/var/run/docker.sock', join(folder, 'link-to-socket'))
  symlinkSync('/', join(folder, 'link-to-root'))
  symlinkSync(join(folder, 'link-to-root', 'etc'), join(folder, 'link-through-link'))
  symlinkSync(join(folder, 'engine/run/engine.sock'), join(folder, 'link-to-what-comes-later'))
  symlinkSync('/proc/self/root', join(folder, 'link-to-own-root'))
  symlinkSync(join(folder, 'plain'), join(folder, 'link-to-plain'))
  places = guardedPlaces(
    { home: join(folder, 'home'), socket: join(folder, 'engine/run/engine.sock'), rootFolder: join(folder, 'engine/root') },
    join(folder, 'user'),
  )
  await new Promise<void>((resolve) => server.listen(join(folder, 'plain/own.sock'), resolve))
})
after(async () => {
  await new Promise((resolve) => server.close(resolve))
  rmSync(folder, { recursive: true })
})

for (const { source, says } of [
  { source: '/', says: 'it is the whole host' },
  { source: '/var/run/docker.sock', says: 'socket of a container engine' },
  { source: '/run/docker.sock', says: 'socket of a container engine' },
  { source: '/run/containerd/containerd.sock', says: 'socket of a container engine' },
  { source: '/var/run', says: 'holds' },
  { source: '/run', says: 'holds' },
  { source: '/var', says: 'holds' },
  { source: '/proc', says: 'part of the host’s system' },
  { source: '/proc/1/root', says: 'the mount /proc/1/root' },
  { source: '/proc/self/root', says: 'whole host' },
  { source: '/sys/fs/cgroup', says: 'part of the host’s system' },
  { source: '/dev/null', says: 'part of the host’s system' },
  { source: '/etc/shadow', says: 'part of the host’s system' },
  { source: '/var/lib/docker/containers', says: 'part of the host’s system' },
  { source: '{}/engine/run/engine.sock', says: 'socket of a container engine' },
  { source: '{}/engine/run', says: 'holds' },
  { source: '{}/engine', says: 'holds' },
  { source: '{}/engine/root/volumes', says: 'part of the host’s system' },
  { source: '{}/home', says: 'Sallyport’s own state' },
  { source: '{}/home/sessions', says: 'Sallyport’s own state' },
  { source: '{}', says: 'holds' },
  { source: '{}/user/.ssh/id_ed25519', says: 'keys and logins' },
  { source: '{}/user', says: 'holds' },
  { source: '{}/link-to-socket', says: 'socket of a container engine' },
  { source: '{}/link-to-root', says: 'whole host' },
  { source: '{}/link-to-root/', says: 'whole host' },
  { source: '{}/link-to-own-root', says: 'whole host' },
  { source: '{}/link-through-link', says: 'part of the host’s system' },
  { source: '{}/link-to-what-comes-later', says: 'socket of a container engine' },
  { source: '{}/plain/../home', says: 'Sallyport’s own state' },
  { source: '{}/plain/own.sock', says: 'it is a socket' },
  { source: '{}/late/not-there', says: 'does not exist' },
  { source: 'relative', says: 'not a whole path' },
])
  test(`I14 the mount ${source} is refused: ${says}`, () =>
    assert.throws(
      () => checkedSource(source.replace('{}', folder), places),
      (error: Error & { code?: string }) => error.code === 'config_prohibited' && error.message.includes(says),
    ))

test('other files and folders can be mounted, by their real path', () => {
  assert.equal(checkedSource(join(folder, 'link-to-plain'), places), join(folder, 'plain'))
  assert.equal(checkedSource(join(folder, 'plain/file'), places), join(folder, 'plain/file'))
  assert.equal(checkedSource(join(folder, 'user/project'), places), join(folder, 'user/project'))
})

for (const target of [
  '/',
  '/etc',
  '/etc/passwd',
  '/proc/sys',
  '/sys',
  '/dev/shm',
  '/workspace',
  '/home/agent',
  '/sallyport/ca.crt',
  '/run/sallyport',
  '/usr/',
  'x',
  '/a/../etc',
])
  test(`I14 nothing is mounted at ${target}`, () => assert.throws(() => checkedTarget(target), { code: 'config_prohibited' }))

test('mounts have their place elsewhere, also below HOME and the workspace', () => {
  assert.deepEqual(['/data/', '/home/agent/.config/x', '/workspace/node_modules'].map(checkedTarget), [
    '/data',
    '/home/agent/.config/x',
    '/workspace/node_modules',
  ])
})

test('I14 a source whose place a link has taken is noticed, also one further up, and one that is gone', () => {
  const below = join(folder, 'moved/inner')
  mkdirSync(below, { recursive: true })
  assert.deepEqual(movedSources([{ source: below }, { source: join(folder, 'plain') }]), [])
  rmSync(join(folder, 'moved'), { recursive: true })
  assert.deepEqual(movedSources([{ source: below }]), [below])
  mkdirSync(join(folder, 'elsewhere/inner'), { recursive: true })
  symlinkSync(join(folder, 'elsewhere'), join(folder, 'moved'))
  assert.deepEqual(movedSources([{ source: below }]), [below])
})
