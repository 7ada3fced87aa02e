import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  checkClock,
  checkLimits,
  checkMandatory,
  checkSeccomp,
  checkStorage,
  checkUsers,
  checkVersion,
  EngineInfo,
} from '../../../src/controller/doctor/engine-checks.ts'
import type { DoctorOutcome as Outcome } from '../../../src/wire/first-run.ts'

const GIB = 1024 ** 3
const info = (parts: Record<string, unknown> = {}): EngineInfo => EngineInfo.parse(parts)
const LIMITED = { MemoryLimit: true, PidsLimit: true, CpuCfsQuota: true, SwapLimit: true }

for (const { version, state } of [
  { version: '19.03.15', state: 'failure' },
  { version: '20.10.0', state: 'ok' },
  { version: '20.10.24+dfsg1', state: 'ok' },
  { version: '25.0.3', state: 'ok' },
  { version: '25.0.4', state: 'warning' },
  { version: '26.0.0', state: 'warning' },
  { version: '26.1.2', state: 'warning' },
  { version: '26.1.3', state: 'ok' },
  { version: '28.2.2', state: 'ok' },
  { version: 'dev', state: 'warning' },
])
  test(`version ${version} of the engine is ${state}`, () => assert.equal(checkVersion(version).state, state))

for (const { what, outcome, state, found } of [
  { what: 'little room', outcome: checkStorage(info({ Driver: 'overlay2' }), GIB), state: 'failure', found: /1\.0 GiB/ },
  { what: 'not much room', outcome: checkStorage(info({ Driver: 'overlay2' }), 5 * GIB), state: 'warning', found: /5\.0 GiB/ },
  { what: 'much room', outcome: checkStorage(info({ Driver: 'overlay2' }), 50 * GIB), state: 'ok', found: /overlay2/ },
  { what: 'vfs', outcome: checkStorage(info({ Driver: 'vfs' }), 50 * GIB), state: 'warning', found: /vfs/ },
  { what: 'an engine elsewhere', outcome: checkStorage(info({ Driver: 'overlay2' }), undefined), state: 'ok', found: /not seen/ },
  { what: 'a rootless engine', outcome: checkUsers(info({ SecurityOptions: ['name=rootless'] })), state: 'ok', found: /rootless/ },
  { what: 'remapped users', outcome: checkUsers(info({ SecurityOptions: ['name=userns'] })), state: 'warning', found: /userns-remap/ },
  { what: 'no seccomp', outcome: checkSeccomp(info({ SecurityOptions: null })), state: 'failure', found: /no system calls/ },
  {
    what: 'an open seccomp',
    outcome: checkSeccomp(info({ SecurityOptions: ['name=seccomp,profile=unconfined'] })),
    state: 'failure',
    found: /unconfined/,
  },
  {
    what: 'the default seccomp',
    outcome: checkSeccomp(info({ SecurityOptions: ['name=seccomp,profile=default'] })),
    state: 'ok',
    found: /default/,
  },
  {
    what: 'an own seccomp',
    outcome: checkSeccomp(info({ SecurityOptions: ['name=seccomp,profile=/etc/docker/s.json'] })),
    state: 'ok',
    found: /s\.json/,
  },
  { what: 'AppArmor', outcome: checkMandatory(info({ SecurityOptions: ['name=apparmor'] })), state: 'ok', found: /AppArmor/ },
  { what: 'neither', outcome: checkMandatory(info()), state: 'warning', found: /neither/ },
  { what: 'all limits', outcome: checkLimits(info(LIMITED)), state: 'ok', found: /cgroups 1/ },
  { what: 'no limit of swap', outcome: checkLimits(info({ ...LIMITED, SwapLimit: false })), state: 'warning', found: /swap/ },
  { what: 'no limit of processes', outcome: checkLimits(info({ ...LIMITED, PidsLimit: false })), state: 'failure', found: /processes/ },
  { what: 'clocks that agree', outcome: checkClock('2026-01-02T03:04:05Z', Date.UTC(2026, 0, 2, 3, 4, 7)), state: 'ok', found: /agree/ },
  {
    what: 'clocks 10 s apart',
    outcome: checkClock('2026-01-02T03:04:05Z', Date.UTC(2026, 0, 2, 3, 4, 15)),
    state: 'warning',
    found: /10\.0 s/,
  },
  {
    what: 'clocks two minutes apart',
    outcome: checkClock('2026-01-02T03:04:05Z', Date.UTC(2026, 0, 2, 3, 6, 5)),
    state: 'failure',
    found: /120\.0 s/,
  },
  { what: 'an engine without a clock', outcome: checkClock('', 0), state: 'warning', found: /does not say/ },
] satisfies { what: string; outcome: Outcome; state: string; found: RegExp }[]) {
  test(`${what}: ${state}, and what is no good says what to do`, () => {
    assert.equal(outcome.state, state)
    assert.match(outcome.found, found)
    if (outcome.state === 'failure') assert.ok((outcome.todo ?? '').length > 10)
  })
}
