/** Bodies that are far larger than the memory that the gate may use. */
import assert from 'node:assert/strict'
import { readFile, open } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { headerOf, openHttp2Upstream, type Http2Upstream, type StreamRequest } from '../support/http2-upstream.ts'
import { BEARER, CANARY, openPlaces, type Ways } from '../support/ways.ts'

const ONE = 'one.example.com'
const TWO = 'two.example.com'
/** Four times, it is the time that bounds it. */
const BYTES = 384 * 1024 ** 2
/** Resident memory that the gate's process ever had. An idle one has 100 MB. */
const RESIDENT_KB_MAX = 300_000

const parts = new AsyncDisposableStack()
const upstreams = new Map<string, Http2Upstream>()
let ways: Ways
let file: string

before(async () => {
  const places = parts.use(await openPlaces())
  for (const [host, protocol] of [
    [ONE, 'http/1.1'],
    [TWO, 'h2'],
  ] as const) {
    const options = { protocols: [protocol], place: places.at(host, 443), answer, isRecording: false }
    upstreams.set(host, parts.use(await openHttp2Upstream(places.tls(host), options)))
  }
  ways = parts.use(await places.open({ hosts: { [ONE]: { inject: BEARER }, [TWO]: { inject: BEARER } } }))
  file = join(ways.proxy.home, 'sparse')
  const handle = await open(file, 'w')
  await handle.truncate(BYTES)
  await handle.close()
})
after(() => parts.disposeAsync())

/** GET sends `BYTES`, anything else counts what comes. */
function answer(request: StreamRequest, response: ServerResponse): void {
  if (request.method === 'GET') {
    response.setHeader('content-length', BYTES)
    const chunk = Buffer.alloc(256 * 1024, 'sallyport')
    let left = BYTES
    const send = (): void => {
      while (left > 0) {
        left -= chunk.length
        if (!response.write(chunk)) return void response.once('drain', send)
      }
      response.end()
    }
    send()
    return
  }
  let bytes = 0
  request.on('data', (chunk: Buffer) => void (bytes += chunk.length))
  request.on('end', () => response.end(String(bytes)))
}

async function residentPeakKb(): Promise<number> {
  const text = await readFile(`/proc/${ways.proxy.child.pid}/status`, 'utf8')
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(text)?.[1])
}

for (const { version, flag, host } of [
  { version: 'HTTP/1.1', flag: '--http1.1', host: ONE },
  { version: 'HTTP/2', flag: '--http2', host: TWO },
]) {
  const curl = (...args: string[]) =>
    ways.run(['curl', '--silent', '--show-error', '--proxy', ways.proxy.url, flag, ...args, `https://${host}/`])

  test(`384 MB come down over ${version} on both sides, whole, and the gate stays below 300 MB`, async () => {
    const { code, stdout, stderr } = await curl('--output', '/dev/null', '--write-out', '%{http_code} %{size_download}')
    assert.equal(code, 0, stderr)
    assert.equal(stdout, `200 ${BYTES}`)
    assert.ok((await residentPeakKb()) < RESIDENT_KB_MAX, `${await residentPeakKb()} kB`)
  })

  test(`384 MB go up over ${version} on both sides, whole, and the gate stays below 300 MB`, async () => {
    const { code, stdout, stderr } = await curl('--upload-file', file)
    assert.equal(code, 0, stderr)
    assert.equal(stdout, String(BYTES))
    assert.equal(headerOf(upstreams.get(host)?.requests.at(-1), 'authorization'), `Bearer ${CANARY}`)
    assert.ok((await residentPeakKb()) < RESIDENT_KB_MAX, `${await residentPeakKb()} kB`)
  })
}
