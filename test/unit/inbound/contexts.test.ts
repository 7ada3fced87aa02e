import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type ConnectionOptions } from 'node:tls'
import { test } from 'node:test'
import { pino } from 'pino'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { system } from '../../../src/kernel/system.ts'
import { createAuthority, type Authority } from '../../../src/pki/pki.ts'
import { createContexts } from '../../../src/sidecar/inbound/contexts.ts'
import { secure } from '../../../src/sidecar/inbound/secure.ts'
import { hostname } from '../../support/policy.ts'
import { openRawUpstream } from '../../support/upstream.ts'

const API = hostname('api.example.com')

/** An authority that counts what it is asked for. */
function counting(now: () => number): { authority: Authority; asked: string[] } {
  const real = createAuthority('test', { ...system, now })
  const asked: string[] = []
  return {
    authority: {
      ...real,
      leafFor(host) {
        asked.push(host)
        return real.leafFor(host)
      },
    },
    asked,
  }
}

test('a host has one leaf and one context, until its leaf has lived half its life', () => {
  let now = Date.now()
  const { authority, asked } = counting(() => now)
  const contexts = createContexts(authority, { now: () => now })
  const first = contexts.for(API)
  for (let i = 0; i < 100; i += 1) assert.equal(contexts.for(API), first)
  assert.deepEqual(asked, [API])
  now += LIMITS.leafLifeMs / 2 + 1
  assert.notEqual(contexts.for(API), first)
  assert.deepEqual(asked, [API, API])
})

for (const { client, options, cipher } of [
  { client: 'what OpenSSL offers', options: {}, cipher: 'TLS_AES_128_GCM_SHA256' },
  {
    client: 'ChaCha20 alone',
    options: { ciphers: 'TLS_CHACHA20_POLY1305_SHA256', minVersion: 'TLSv1.3' },
    cipher: 'TLS_CHACHA20_POLY1305_SHA256',
  },
  { client: 'TLS 1.2', options: { maxVersion: 'TLSv1.2' }, cipher: 'ECDHE-ECDSA-AES128-GCM-SHA256' },
] as const satisfies readonly { client: string; options: ConnectionOptions; cipher: string }[])
  test(`a client of ${client} gets ${cipher}`, async () => {
    const authority = createAuthority('test', system)
    const contexts = createContexts(authority, system)
    const log = pino({ level: 'silent' })
    await using server = await openRawUpstream((socket) => secure(socket, API, contexts, log, (secured) => void secured.end()))
    const socket = connect({ host: '127.0.0.1', port: server.port, servername: API, ca: authority.certificatePem, ...options })
    await once(socket, 'secureConnect')
    const { name, standardName } = socket.getCipher()
    socket.destroy()
    assert.ok([name, standardName].includes(cipher), name)
  })
