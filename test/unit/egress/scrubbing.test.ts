import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TokenExchanges } from '../../../src/credential/credential.ts'
import { parseHostname, type Hostname } from '../../../src/kernel/hostname.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { Secret } from '../../../src/kernel/secret.ts'
import { system } from '../../../src/kernel/system.ts'
import type { AllowedRule } from '../../../src/policy/policy.ts'
import type { Enforced } from '../../../src/sidecar/egress/enforced.ts'
import { ScrubbedBytes, type ScrubPlan } from '../../../src/sidecar/egress/scrub/plan.ts'
import { createScrubbing, type Scrubbing } from '../../../src/sidecar/egress/scrubbing.ts'
import { enforce } from '../../../src/sidecar/enforcement.ts'
import { policyOf } from '../../support/policy.ts'

const HOST = parseHostname('api.example.com') as Hostname
const [OLD, NEW, MINTED, LATER] = ['old-value-7f3a9c', 'new-value-5e1b2d', 'minted-value-4f60', 'later-value-8a93']

type World = {
  readonly scrubbing: Scrubbing
  now: Enforced
  /** What token servers gave. */
  minted: readonly Secret[]
  ofOther: readonly Secret[]
  plan(enforced?: Enforced, host?: Hostname): ScrubPlan
}

/** A credential for all of example.com whose token is exchanged, with a second secret beside it. */
function open(): World {
  const none: readonly Secret[] = []
  const tokens = { known: (id) => (id === 'api' ? world.minted : world.ofOther) } as Pick<TokenExchanges, 'known'> as TokenExchanges
  const world: World = {
    now: under(OLD),
    minted: none,
    ofOther: none,
    scrubbing: createScrubbing(() => world.now, tokens),
    plan(enforced = world.now, host = HOST) {
      return world.scrubbing.planFor(enforced, host, { scrub: 'replace' } as AllowedRule) ?? assert.fail('nothing is looked into')
    },
  }
  return world
}

/** @param domain of the first credential; the second is for another host */
function under(value: string, secret = 'API', domain = '*.example.com'): Enforced {
  const policy = policyOf(`
version: 1
network:
  rules:
    - {id: api, host: "*.example.com", action: allow}
credentials:
  - id: api
    secret: CLIENT
    oauth2: {grant: client_credentials, token_url: "https://auth.example.org/token", client_id: c}
    inject: {domains: ["${domain}"], header: Authorization, prefix: "Bearer ", also: [{header: X-Key, secret: ${secret}}]}
  - id: other
    secret: CLIENT
    oauth2: {grant: client_credentials, token_url: "https://auth.example.org/token", client_id: d}
    inject: {domains: [${domain === '*.example.com' ? 'other.example.net' : 'other.example.com'}], header: Authorization, prefix: "Bearer "}
secrets:
  - {name: CLIENT, source: "env:CLIENT"}
  - {name: ${secret}, source: "env:${secret}"}
`)
  return enforce(policy, { env: { CLIENT: 'client-password-1', [secret]: value }, placeholderSeed: 'seed', system }, 0)
}

const finds = (plan: ScrubPlan, value: string): boolean => !plan.redactor.isClean(Buffer.from(value))

test('I24 what a credential becomes is found from then on, in answers under way as well, and what it was is found on', () => {
  const world = open()
  const plan = world.plan()
  const bytes = new ScrubbedBytes(plan)
  assert.deepEqual([finds(plan, OLD), finds(plan, MINTED)], [true, false])
  assert.equal(bytes.push(Buffer.from(`! ${MINTED.slice(0, 6)}`)).toString(), '! ')
  world.minted = [new Secret('token', MINTED)]
  // Its beginning came before it was known.
  assert.equal(bytes.push(Buffer.from(`${MINTED.slice(6)} `)).toString(), `${'*'.repeat(MINTED.length)} `)
  world.minted = [new Secret('token', LATER)]
  assert.deepEqual(
    [OLD, MINTED, LATER].map((value) => finds(plan, value)),
    [true, true, true],
  )
  world.now = under(NEW)
  assert.deepEqual(
    [OLD, NEW, MINTED, LATER].map((value) => finds(plan, value)),
    [true, true, true, true],
  )
  assert.equal(finds(plan, 'client-password-1'), false)
})

test('I24 what a request carries of a policy that is no longer in force is found in its answer', () => {
  const world = open()
  const begun = world.now
  world.now = under(NEW)
  assert.deepEqual(
    [OLD, NEW].map((value) => finds(world.plan(begun), value)),
    [true, true],
  )
  const other = under(LATER, 'OTHER')
  world.now = other
  assert.deepEqual(
    [OLD, LATER].map((value) => finds(world.plan(begun), value)),
    [true, true],
  )
})

test('I24 a host finds its values also when what finds them has forgotten them over those of another host', () => {
  const world = open()
  const plan = world.plan()
  const other = world.plan(world.now, parseHostname('other.example.com') as Hostname)
  // From here on the two have other credentials each.
  world.now = under(OLD, 'API', 'api.example.com')
  assert.equal(finds(plan, OLD), true)
  for (let i = 0; i < 4 * LIMITS.formerSecretsMax; i++) {
    world.ofOther = [new Secret('token', `value-of-the-other-${i}-`)]
    assert.equal(finds(other, `value-of-the-other-${i}-`), true)
  }
  assert.equal(finds(plan, OLD), true)
})

test('what cannot be looked for is no answer, however often it is asked for', () => {
  const world = open()
  const plan = world.plan()
  const long = 'x'.repeat(LIMITS.redactorPieceCharsMax)
  // Pieces that are alike are one, so that each is another one.
  const value = Array.from({ length: 2_000 }, (_, i) => `${i}${long}`.slice(0, LIMITS.redactorPieceCharsMax)).join('')
  world.minted = [new Secret('token', value)]
  for (let i = 0; i < 3; i++) {
    assert.throws(() => plan.redactor, { code: 'secret_invalid' })
    assert.throws(() => world.plan(), { code: 'secret_invalid' })
  }
})

test('answers of one host share a plan, for as long as the policy is the same and hosts are not without number', () => {
  const world = open()
  const plan = world.plan()
  assert.equal(world.plan(), plan)
  assert.equal(world.plan().redactor, plan.redactor)
  for (let i = 0; i < LIMITS.scrubbedHostsMax; i++) world.plan(world.now, parseHostname(`h${i}.example.com`) as Hostname)
  assert.notEqual(world.plan(), plan)
  assert.equal(world.plan().redactor, plan.redactor)
  const before = world.plan()
  world.now = under(OLD)
  assert.notEqual(world.plan(), before)
})

test('hits of all hosts with the same credentials are counted together', () => {
  const world = open()
  const other = world.plan(world.now, parseHostname('other.example.com') as Hostname)
  assert.equal(world.plan().onHits(LIMITS.scrubHitsMax), true)
  assert.equal(other.onHits(1), false)
})

test('nothing is looked into where no secret is bound to the host, or the rule says so', () => {
  const world = open()
  const elsewhere = parseHostname('example.org') as Hostname
  assert.equal(world.scrubbing.planFor(world.now, elsewhere, { scrub: 'replace' } as AllowedRule), undefined)
  assert.equal(world.scrubbing.planFor(world.now, HOST, { scrub: 'off' } as AllowedRule), undefined)
  assert.equal(world.scrubbing.planFor(world.now, HOST, { scrub: 'block' } as AllowedRule)?.mode, 'block')
  assert.equal(world.plan().mode, 'replace')
})

test('I24 a running answer loses none of what its host had when a policy takes more away than former values are kept, and adds one', () => {
  const ids = Array.from({ length: LIMITS.formerSecretsMax + 4 }, (_, i) => `c${i}`)
  const valueOf = (id: string): string => `value-of-${id}-7f3a9c`
  const having = (some: readonly string[]): Enforced => {
    const rules = `network: {rules: [{id: api, host: api.example.com, action: allow}]}`
    const credentials = some.map(
      (id) => `{id: ${id}, secret: ${id.toUpperCase()}, inject: {domains: [api.example.com], paths: ["/${id}"], header: X}}`,
    )
    const secrets = some.map((id) => `{name: ${id.toUpperCase()}, source: "env:${id.toUpperCase()}"}`)
    const policy = policyOf(`version: 1\n${rules}\ncredentials: [${credentials.join(', ')}]\nsecrets: [${secrets.join(', ')}]\n`)
    const env = Object.fromEntries(some.map((id) => [id.toUpperCase(), valueOf(id)]))
    return enforce(policy, { env, placeholderSeed: 'seed', system }, 1)
  }
  let now = having(ids)
  const none = { known: () => [] } as Pick<TokenExchanges, 'known'> as TokenExchanges
  const scrubbing = createScrubbing(() => now, none)
  const plan = scrubbing.planFor(now, HOST, { scrub: 'replace' } as AllowedRule) ?? assert.fail('nothing is looked into')
  const unseen = (): string[] => ids.filter((id) => plan.redactor.isClean(Buffer.from(valueOf(id))))
  assert.deepEqual(unseen(), [])
  now = having(['c0'])
  assert.deepEqual(unseen(), [])
  now = having(['c0', 'new'])
  assert.deepEqual(unseen(), [])
})
