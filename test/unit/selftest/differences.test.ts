import assert from 'node:assert/strict'
import { test } from 'node:test'
import { differences, type InspectedContainer } from '../../../src/controller/selftest/differences.ts'

const MOUNT = { Type: 'bind', Source: '/w', Destination: '/workspace', RW: true }
const container = (
  parts: { host?: Record<string, unknown>; user?: string; mounts?: InspectedContainer['Mounts']; networks?: string[] } = {},
): InspectedContainer => ({
  Config: { User: parts.user ?? '1000:1000', Image: 'x' },
  HostConfig: { CapDrop: ['ALL'], CapAdd: null, ReadonlyRootfs: true, Memory: 512, Sysctls: { a: '1', b: '2' }, ...parts.host },
  Mounts: parts.mounts ?? [MOUNT],
  NetworkSettings: { Networks: Object.fromEntries((parts.networks ?? ['jail']).map((name) => [name, {}])) },
})

test('the same container twice does not differ, however the engine writes what is unset and in which order', () => {
  const one = container({ host: { Devices: [], PidMode: '', Privileged: false, Sysctls: { b: '2', a: '1' } } })
  assert.deepEqual(differences(one, container({ host: { Devices: null } })), [])
})

for (const { what, other, named } of [
  { what: 'a capability more', other: container({ host: { CapAdd: ['NET_RAW'] } }), named: 'HostConfig.CapAdd' },
  { what: 'capabilities that were not dropped', other: container({ host: { CapDrop: null } }), named: 'HostConfig.CapDrop' },
  { what: 'a writable root', other: container({ host: { ReadonlyRootfs: false } }), named: 'HostConfig.ReadonlyRootfs' },
  { what: 'an option that nobody thought of', other: container({ host: { NewOption: 'on' } }), named: 'HostConfig.NewOption' },
  { what: 'another limit', other: container({ host: { Memory: 1024 } }), named: 'HostConfig.Memory' },
  { what: 'another user', other: container({ user: '0:0' }), named: 'Config.User' },
  { what: 'a mount more', other: container({ mounts: [MOUNT, { ...MOUNT, Destination: '/x' }] }), named: 'Mounts' },
  { what: 'a mount that can be written', other: container({ mounts: [{ ...MOUNT, RW: false }] }), named: 'Mounts' },
  { what: 'a mount of something else', other: container({ mounts: [{ ...MOUNT, Source: '/etc' }] }), named: 'Mounts' },
  { what: 'a network more', other: container({ networks: ['jail', 'bridge'] }), named: 'Networks' },
  { what: 'no network', other: container({ networks: [] }), named: 'Networks' },
]) {
  test(`I14 ${what} is a difference, from either side`, () => {
    assert.deepEqual(differences(container(), other), [named])
    assert.deepEqual(differences(other, container()), [named])
  })
}

test('image, name and what becomes of the log are no difference', () => {
  const other = container({ host: { AutoRemove: true, LogConfig: { Type: 'none' } } })
  assert.deepEqual(differences(container(), { ...other, Config: { User: '1000:1000', Image: 'y' } }), [])
})
