import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { openSession, type ContainerInfo, type Service, type Session } from '../support/session.ts'

const ALL: readonly Service[] = ['sidecar', 'agent', 'upstream', 'trust']
const MIB = 1024 * 1024

let session: Session
const info = {} as Record<Service, ContainerInfo>
before(async () => {
  session = await openSession()
  for (const service of ALL) info[service] = await session.inspect(service)
})
after(() => session[Symbol.asyncDispose]())

for (const service of ALL) {
  for (const { flag, want } of [
    { flag: 'CapDrop', want: ['ALL'] },
    { flag: 'CapAdd', want: null },
    { flag: 'Privileged', want: false },
    { flag: 'ReadonlyRootfs', want: true },
    { flag: 'SecurityOpt', want: ['no-new-privileges:true'] },
    { flag: 'Init', want: true },
    { flag: 'PidMode', want: '' },
    { flag: 'UTSMode', want: '' },
    { flag: 'UsernsMode', want: '' },
    { flag: 'IpcMode', want: 'private' },
    { flag: 'Devices', want: null },
    { flag: 'DeviceRequests', want: null },
    { flag: 'PortBindings', want: {} },
    { flag: 'GroupAdd', want: null },
    { flag: 'VolumesFrom', want: null },
    { flag: 'Links', want: null },
  ]) {
    test(`I14 inspect shows ${flag} ${JSON.stringify(want)} on the ${service}`, () => {
      const found = info[service].HostConfig[flag] ?? null
      // The engine writes an unset list sometimes as null and sometimes as an empty one.
      assert.deepEqual(Array.isArray(found) && found.length === 0 ? null : found, want)
    })
  }

  test(`I14 inspect shows a limit of memory, swap and processes on the ${service}`, () => {
    const { Memory, MemorySwap, PidsLimit } = info[service].HostConfig as Record<string, number>
    assert.ok((Memory ?? 0) >= 128 * MIB && (Memory ?? 0) <= 4096 * MIB)
    assert.ok((MemorySwap ?? 0) > 0)
    assert.ok((PidsLimit ?? 0) > 0 && (PidsLimit ?? 0) <= 512)
  })

  test(`I14 no socket and no folder of the engine or of the host’s system is mounted in the ${service}`, () => {
    const binds = info[service].Mounts.filter(({ Type }) => Type === 'bind').map(({ Source }) => Source)
    for (const source of binds) assert.doesNotMatch(source, /docker\.sock|^\/(?:var\/run|run|proc|sys|dev|etc)?$/)
  })
}

for (const service of ['sidecar', 'agent'] as const) {
  test(`I14 inspect shows a share of the processors on the ${service}`, () => {
    assert.ok((info[service].HostConfig['NanoCpus'] as number) > 0)
  })
}

for (const service of ['sidecar', 'agent', 'upstream'] as const) {
  test(`I14 the ${service} is not root`, () => assert.match(info[service].Config.User, /^[1-9]\d*:[1-9]\d*$/))

  test(`I12 IPv6 is off in the ${service}`, () => {
    assert.equal((info[service].HostConfig['Sysctls'] as Record<string, string>)['net.ipv6.conf.all.disable_ipv6'], '1')
  })
}

test('I12 the sidecar does not forward packets', async () => {
  assert.equal((await session.sidecar(['cat', '/proc/sys/net/ipv4/ip_forward'])).stdout.trim(), '0')
})

test('I12 the agent is on the jail network alone, and the sidecar on both', () => {
  assert.deepEqual(Object.keys(info.agent.NetworkSettings.Networks), [`${session.name}_jail`])
  assert.deepEqual(Object.keys(info.sidecar.NetworkSettings.Networks).toSorted(), [`${session.name}_jail`, `${session.name}_uplink`])
  assert.equal(info.trust.HostConfig['NetworkMode'], 'none')
})

test('I12 the agent’s resolver is the sidecar', async () => {
  assert.deepEqual(info.agent.HostConfig['Dns'], [await session.address('sidecar', 'jail')])
})

test('the agent has these mounts and no other', () => {
  const mounts = info.agent.Mounts.map(({ Destination, RW }) => `${Destination} ${RW ? 'rw' : 'ro'}`).toSorted()
  assert.deepEqual(mounts, [
    '/etc/group ro',
    '/etc/passwd ro',
    '/etc/pki/ca-trust/extracted/pem ro',
    '/etc/pki/tls/certs ro',
    '/etc/resolv.conf ro',
    '/etc/ssl/certs ro',
    '/sallyport ro',
    '/var/lib/ca-certificates ro',
    '/workspace rw',
  ])
})

test('the workspace is not mounted in the sidecar, and what it reads from the host is read-only', () => {
  const mounts = info.sidecar.Mounts.filter(({ Type }) => Type === 'bind')
  assert.deepEqual(mounts.map(({ Destination }) => Destination).toSorted(), [
    '/etc/sallyport/extra-ca.pem',
    '/etc/sallyport/home/policies',
    '/etc/sallyport/policy',
    '/run/sallyport',
    '/run/secrets',
  ])
  assert.ok(mounts.every(({ RW }) => !RW))
  assert.ok(!info.sidecar.Mounts.some(({ Source }) => Source.startsWith(session.workspace)))
})

test('I11 the CA’s key and the audit are in volumes that no other container has', () => {
  const own = info.sidecar.Mounts.filter(({ Destination }) => /ca-key|audit/.test(Destination)).map(({ Source }) => Source)
  assert.equal(own.length, 2)
  for (const service of ['agent', 'trust', 'upstream'] as const) {
    for (const source of own) assert.ok(!info[service].Mounts.some((mount) => mount.Source === source))
  }
})

for (const service of ['sidecar', 'agent'] as const) {
  test(`I14 no process of the ${service} holds or can gain a capability`, async () => {
    const status = await session.project.compose(['exec', '-T', service, 'sh', '-c', 'cat /proc/1/status /proc/self/status'])
    const sets = [...status.stdout.matchAll(/^Cap(?:Inh|Prm|Eff|Bnd|Amb):\s*([0-9a-f]+)$/gm)].map(([, set]) => set)
    assert.equal(sets.length, 10)
    assert.ok(
      sets.every((set) => /^0+$/.test(set ?? '')),
      sets.join(' '),
    )
    assert.deepEqual(
      [...status.stdout.matchAll(/^NoNewPrivs:\s*(\d)$/gm)].map(([, value]) => value),
      ['1', '1'],
    )
    assert.deepEqual(
      [...status.stdout.matchAll(/^Seccomp:\s*(\d)$/gm)].map(([, value]) => value),
      ['2', '2'],
    )
  })
}

for (const path of [
  '/x',
  '/etc/x',
  '/usr/bin/x',
  '/var/tmp/x',
  '/sallyport/x',
  '/sallyport/bundle.crt',
  '/etc/ssl/certs/x',
  '/etc/passwd',
  '/etc/hosts',
  '/etc/resolv.conf',
]) {
  test(`I14 the agent cannot write ${path}`, async () => {
    const { code, stderr } = await session.agent(['sh', '-c', `echo x >> ${path}`])
    assert.notEqual(code, 0)
    assert.match(stderr, /Read-only file system|Permission denied/)
  })
}

test('I14 the sidecar cannot write its root filesystem, its policy or its secrets', async () => {
  for (const path of [
    '/x',
    '/opt/sallyport/dist/sallyport.js',
    '/opt/sallyport/dist/main.cache',
    '/opt/sallyport/dist/x',
    '/etc/sallyport/policy/x',
    '/run/secrets/x',
  ]) {
    assert.notEqual((await session.sidecar(['sh', '-c', `echo x >> ${path}`])).code, 0, path)
  }
})

for (const path of ['/workspace', '/tmp', '/run', '/home/agent']) {
  test(`the agent can write ${path}`, async () => {
    const { code, stderr } = await session.agent(['sh', '-c', `echo x > ${path}/x && cat ${path}/x`])
    assert.equal(code, 0, stderr)
  })
}

for (const path of ['/tmp', '/run', '/home/agent']) {
  test(`${path} of the agent is in memory, sized, nosuid and nodev`, async () => {
    const line = (await session.agent(['grep', ` ${path} `, '/proc/mounts'])).stdout
    assert.match(line, /^tmpfs /)
    for (const option of ['nosuid', 'nodev', 'size=']) assert.ok(line.includes(option), line)
  })
}

test('the agent’s uid has a name and a home', async () => {
  const { stdout } = await session.agent(['sh', '-c', 'whoami; echo ~; id -u'])
  const uid = session.project.env.get('SALLYPORT_UID')
  assert.equal(stdout, `agent\n/home/agent\n${uid}\n`)
})

for (const { what, script } of [
  { what: 'become root', script: 'import os; os.setuid(0)' },
  {
    what: 'mount a file system',
    script: "import ctypes; raise SystemExit(0 if ctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0 else 1)",
  },
  { what: 'make a device', script: "import os; os.mknod('/tmp/sda', 0o60600, os.makedev(254, 0))" },
  { what: 'give away a file', script: "open('/tmp/f', 'w'); import os; os.chown('/tmp/f', 0, 0)" },
]) {
  test(`I14 the agent cannot ${what}`, async () => {
    assert.notEqual((await session.agent(['python3', '-c', script])).code, 0)
  })
}

test('I14 a set-user-id program of the workspace or of /tmp gains nothing', async () => {
  const { stdout } = await session.agent(['sh', '-c', 'cp /usr/bin/id /tmp/id && chmod 4755 /tmp/id && /tmp/id -u'])
  assert.equal(stdout.trim(), session.project.env.get('SALLYPORT_UID'))
})

test('I14 a fork bomb ends at the limit, and the gate does not notice', async () => {
  const script = `
import os, signal
made = []
try:
    while len(made) < 2000:
        pid = os.fork()
        if pid == 0: signal.pause()
        made.append(pid)
except OSError as error: print(len(made), error)
finally:
    for pid in made: os.kill(pid, signal.SIGKILL)
    for pid in made: os.waitpid(pid, 0)`
  const { stdout } = await session.agent(['python3', '-c', script])
  assert.match(stdout, /^\d{2,3} \[Errno 11\]/)
  assert.match((await session.agent(['curl', '-sS', 'https://api.demo.internal/v1/me'])).stdout, /"authenticated":true/)
})

test('I1 the demo’s token is in no container’s configuration, no environment, no argument and no file but its own', async () => {
  const encoded = Buffer.from(`x-access-token:${session.token}`).toString('base64')
  await session.agent(['curl', '-sS', 'https://api.demo.internal/v1/me'])
  await session.agent(['git', 'ls-remote', 'https://api.demo.internal/git/hello.git'])
  const search =
    'env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; find / -xdev -newer /proc/1/exe -type f -size -2000k -exec cat {} +; find /tmp /run /home /workspace /sallyport /certs -type f -exec cat {} +'
  const places = {
    configuration: JSON.stringify(info),
    '.env': JSON.stringify([...session.project.env]),
    'compose config': (await session.project.compose(['config'])).stdout,
    logs: await session.project.compose(['logs']).then(({ stdout, stderr }) => stdout + stderr),
    agent: (await session.agent(['sh', '-c', `(${search}) 2>/dev/null`])).stdout,
    'environment and arguments of the sidecar': (
      await session.sidecar(['sh', '-c', '(env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline) 2>/dev/null'])
    ).stdout,
    audit: (await session.sidecar(['cat', '/var/lib/sallyport/audit/audit.jsonl'])).stdout,
    'public part of the CA': (await session.sidecar(['sh', '-c', 'cat /var/lib/sallyport/ca/*'])).stdout,
  }
  for (const [place, text] of Object.entries(places)) {
    assert.notEqual(text, '', place)
    assert.ok(!text.includes(session.token) && !text.includes(encoded), place)
  }
  assert.match(places.audit, /"secret":"DEMO_TOKEN"/)
})

test('I11 the CA’s key is not in what the agent can read', async () => {
  const { stdout } = await session.agent(['sh', '-c', 'grep -rl "PRIVATE KEY" /sallyport /etc/ssl/certs 2>/dev/null; ls -A /sallyport'])
  assert.deepEqual(stdout.trim().split('\n'), ['bundle.crt', 'ca.crt', 'truststore.p12'])
})
