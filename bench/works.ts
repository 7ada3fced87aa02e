import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect as connectTcp, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls'
import type { Ability } from './measures.ts'
import { TARGETS, inWork } from './places.ts'
import { Unavailable, type RunningProxy } from './proxy.ts'

/** Some listen before they can answer. */
const PATIENCE_MS = 3_000
const ANSWER_MS = 10_000

/**
 * One request by hand: the answer is right, the header was injected, a tunnel shows the upstream's own certificate.
 * @throws Unavailable when the proxy does not do what the measure assumes
 */
export async function checkWorks(proxy: RunningProxy, ability: Ability, isH2: boolean, patienceMs = PATIENCE_MS): Promise<void> {
  const deadline = performance.now() + patienceMs
  for (;;) {
    try {
      return await tryOnce(proxy, ability, isH2)
    } catch (error) {
      if (performance.now() > deadline)
        throw new Unavailable(`${ability} does not work: ${(error as Error).message.replaceAll(/\s+/g, ' ').slice(0, 120)}`)
      await sleep(200)
    }
  }
}

async function tryOnce(proxy: RunningProxy, ability: Ability, isH2: boolean): Promise<void> {
  const socket = connectTcp(proxy.abilities[ability] ?? 0, '127.0.0.1')
  socket.setTimeout(ANSWER_MS, () => socket.destroy(new Error('no answer')))
  try {
    await once(socket, 'connect')
    switch (ability) {
      case 'forward':
        return expectBody(await get(socket, `http://${TARGETS.plain}/1k.json`, TARGETS.plain), 'xxxxxxxx')
      case 'connect':
      case 'socks':
        await tunnel(socket, TARGETS.plain, ability === 'socks')
        return expectBody(await get(socket, '/1k.json', TARGETS.plain), 'xxxxxxxx')
      case 'passthrough':
      case 'sockspass': {
        await tunnel(socket, TARGETS.passthrough, ability === 'sockspass')
        // Only the upstream's own certificate will do.
        const secure = await secured(socket, { ca: readFileSync(inWork('ca', 'upstream-ca.pem')), ALPNProtocols: ['http/1.1'] })
        return expectBody(await get(secure, '/1k.json', TARGETS.passthrough), 'xxxxxxxx')
      }
      case 'intercept':
        return await tryIntercept(socket, proxy, isH2)
    }
  } finally {
    socket.destroy()
  }
}

async function tryIntercept(socket: Socket, proxy: RunningProxy, isH2: boolean): Promise<void> {
  await tunnel(socket, isH2 ? TARGETS.interceptH2 : TARGETS.intercept, false)
  const trust = proxy.ca === undefined ? { rejectUnauthorized: false } : { ca: readFileSync(proxy.ca) }
  const secure = await secured(socket, { ...trust, ALPNProtocols: [isH2 ? 'h2' : 'http/1.1'] })
  if (isH2) {
    if (secure.alpnProtocol !== 'h2') throw new Error('no HTTP/2 inside intercepted TLS')
    return
  }
  const answer = await get(secure, '/echo', TARGETS.intercept)
  if (!answer.includes('injected=yes')) throw new Error('the header was not injected')
}

async function secured(socket: Socket, options: ConnectionOptions): Promise<TLSSocket> {
  const secure = connectTls({ socket, servername: 'localhost', ...options })
  await once(secure, 'secureConnect')
  return secure
}

async function get(socket: Socket, target: string, host: string): Promise<string> {
  socket.write(`GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
  const chunks: Buffer[] = []
  for await (const chunk of socket) chunks.push(chunk as Buffer)
  const answer = Buffer.concat(chunks).toString('latin1')
  if (answer.split(' ', 2)[1] !== '200') throw new Error(`the answer is ${JSON.stringify(answer.slice(0, 60))}`)
  return answer
}

function expectBody(answer: string, text: string): void {
  if (!answer.includes(text)) throw new Error(`the answer is ${JSON.stringify(answer.slice(0, 60))}`)
}

async function tunnel(socket: Socket, target: string, isSocks: boolean): Promise<void> {
  const [host = '', number = ''] = target.split(':')
  if (isSocks) {
    socket.write(Buffer.from([5, 1, 0]))
    await read(socket, 2)
    const name = Buffer.from(host)
    const address = /^\d/.test(host) ? Buffer.from([1, ...host.split('.').map(Number)]) : Buffer.from([3, name.length, ...name])
    socket.write(Buffer.concat([Buffer.from([5, 1, 0]), address, Buffer.from([Number(number) >> 8, Number(number) & 255])]))
    const head = await read(socket, 5)
    if (head[1] !== 0) throw new Error(`the SOCKS reply is ${head[1]}`)
    await read(socket, head[3] === 1 ? 5 : head[3] === 4 ? 17 : 2 + (head[4] ?? 0))
    return
  }
  socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`)
  let head = ''
  while (!head.endsWith('\r\n\r\n')) head += (await read(socket, 1)).toString('latin1')
  if (head.split(' ', 2)[1] !== '200') throw new Error(`CONNECT was answered ${JSON.stringify(head.slice(0, 60))}`)
}

/** So many bytes and no more: what follows belongs to the tunnel. */
async function read(socket: Socket, bytes: number): Promise<Buffer> {
  for (;;) {
    const chunk = socket.read(bytes) as Buffer | null
    if (chunk !== null) return chunk
    if (socket.destroyed || socket.readableEnded) throw new Error('closed before the tunnel was open')
    await Promise.race([once(socket, 'readable'), once(socket, 'close')])
  }
}
