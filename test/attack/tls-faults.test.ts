import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { Duplex } from 'node:stream'
import { test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { openTlsTunnel } from '../support/raw-client.ts'
import { API, openSetting } from '../support/setting.ts'

test('a client of TLS 1.2 that renegotiates loses its connection: no handshake goes uncounted', async () => {
  await using setting = await openSetting({ isBoth: true })
  const secured = await openTlsTunnel(setting.gate.port, API, setting.secure.port, setting.ca, { maxVersion: 'TLSv1.2' })
  secured.on('error', () => {})
  let wasRenegotiated = false
  secured.renegotiate({ rejectUnauthorized: true }, (error) => (wasRenegotiated = error === null))
  await new Promise<void>((resolve) => (secured.closed ? resolve() : secured.once('close', () => resolve())))
  assert.equal(wasRenegotiated, false)
})

for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
  test(`what is no TLS, behind a handshake of ${maxVersion}, ends the connection, also of a client that stays`, async () => {
    await using setting = await openSetting({ isBoth: true })
    const where = `${API}:${setting.secure.port}`
    const raw = connect({ port: setting.gate.port, host: '127.0.0.1', allowHalfOpen: true })
    await once(raw, 'connect')
    raw.write(`CONNECT ${where} HTTP/1.1\r\nHost: ${where}\r\n\r\n`)
    await once(raw, 'data')
    const pipe = new Duplex({
      read() {},
      write(chunk, _encoding, done) {
        raw.write(chunk as Buffer, () => done())
      },
    })
    const feed = (chunk: Buffer): void => void pipe.push(chunk)
    raw.on('data', feed)
    const secured = connectTls({ socket: pipe, servername: API, ca: setting.ca, maxVersion })
    await once(secured, 'secureConnect')
    secured.on('error', () => {})
    // It hears no alert from here on, and half a request is due.
    raw.off('data', feed).resume()
    secured.write('GET / HTTP/1.1\r\nHost: x')
    const ended = once(raw, 'end')
    raw.write(Buffer.from('1703030010112233445566778899aabbccddeeff00', 'hex'))
    await ended
    raw.destroy()
  })
}
