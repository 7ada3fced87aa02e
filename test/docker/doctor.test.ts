import assert from 'node:assert/strict'
import { test } from 'node:test'
import { imageOf } from '../../scripts/images.ts'
import { capture } from '../../scripts/steps.ts'
import { createDocker, examine, type Docker, type DoctorRow } from '../../src/controller/doctor/doctor.ts'
import { system } from '../../src/kernel/system.ts'
import { temporaryFolder } from '../support/audit.ts'
import { ROOT } from '../support/tree.ts'

const IMAGE = process.env['SALLYPORT_SIDECAR_IMAGE'] || imageOf('sidecar')

async function examineHere(
  change: (docker: Docker) => Docker = (docker) => docker,
): Promise<{ rows: Map<string, DoctorRow>; left: string }> {
  await using folder = await temporaryFolder()
  const marks = new Set<string>()
  const real = createDocker('docker', process.env)
  const watched: Docker = (args, signal) => {
    for (const argument of args) if (argument.startsWith('sallyport.doctor=')) marks.add(argument)
    return real(args, signal)
  }
  const rows = await examine(
    {
      docker: change(watched),
      image: IMAGE,
      home: folder.path,
      packageRoot: ROOT,
      environment: process.env,
      system,
      nodeVersion: process.version,
    },
    new AbortController().signal,
  )
  const lists = [...marks].flatMap((mark) => [
    capture('docker', ['ps', '--all', '--quiet', '--filter', `label=${mark}`]),
    capture('docker', ['network', 'ls', '--quiet', '--filter', `label=${mark}`]),
    capture('docker', ['volume', 'ls', '--quiet', '--filter', `label=${mark}`]),
  ])
  assert.ok(lists.length > 0)
  return { rows: new Map(rows.map((row) => [row.id, row])), left: (await Promise.all(lists)).map(({ stdout }) => stdout).join('') }
}

test('I12 I14 on an engine that holds sessions no row is a failure, and nothing is left of what was tried', async () => {
  const { rows, left } = await examineHere()
  for (const row of rows.values()) assert.notEqual(row.state, 'failure', `${row.id}: ${row.found}`)
  for (const id of ['jail', 'dns', 'hardening', 'sockets']) assert.equal(rows.get(id)?.state, 'ok', id)
  assert.match(rows.get('jail')?.found ?? '', /inhibit_ipv4/)
  assert.equal(left, '')
})

/** An engine that leaves these arguments of `docker` out. */
const without =
  (first: string, rest = 0) =>
  (docker: Docker): Docker =>
  (args, signal) => {
    const at = args.findIndex((argument) => argument.startsWith(first))
    return docker(at === -1 ? args : [...args.slice(0, rest === 0 ? at : at - 1), ...args.slice(at + 1)], signal)
  }

for (const { what, change, failed } of [
  { what: 'gives the bridge an address', change: without('com.docker.network.bridge.inhibit_ipv4', 1), failed: ['jail'] },
  { what: 'has no read-only root', change: without('--read-only'), failed: ['hardening'] },
  { what: 'allows new privileges', change: without('no-new-privileges:true', 1), failed: ['hardening'] },
]) {
  test(`I12 an engine that ${what} is found out by trying: ${failed.join(', ')}, and nothing else fails`, async () => {
    const { rows, left } = await examineHere(change)
    assert.deepEqual(
      [...rows.values()].filter(({ state }) => state === 'failure').map(({ id }) => id),
      failed,
    )
    assert.equal(left, '')
  })
}

test('without the sidecar’s image nothing is tried, and the rows say how to get it', async () => {
  const { rows } = await examineMissing()
  for (const id of ['jail', 'dns', 'hardening', 'sockets']) {
    assert.equal(rows.get(id)?.state, 'failure')
    assert.match(rows.get(id)?.todo ?? '', /docker build/)
  }
})

async function examineMissing(): Promise<{ rows: Map<string, DoctorRow> }> {
  await using folder = await temporaryFolder()
  const rows = await examine(
    {
      docker: createDocker('docker', process.env),
      image: 'sallyport/none:none',
      home: folder.path,
      packageRoot: ROOT,
      environment: process.env,
      system,
      nodeVersion: process.version,
    },
    new AbortController().signal,
  )
  return { rows: new Map(rows.map((row) => [row.id, row])) }
}
