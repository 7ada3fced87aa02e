import { request as httpRequest } from 'node:http'
import { isIP, type Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import { formatAuthority, isHostname, parseHostname, type Hostname } from '../../kernel/hostname.ts'
import { LIMITS } from '../../kernel/limits.ts'
import { Secret } from '../../kernel/secret.ts'
import { dialTcp, secure, type Dial, type Target } from './dial.ts'

/** The operator's own proxy, by which everything leaves. */
export type UpstreamProxy = {
  readonly kind: 'http' | 'https' | 'socks5'
  readonly host: Hostname
  readonly port: number
  readonly login: { readonly user: string; readonly password: Secret } | undefined
}

const KINDS: Record<string, UpstreamProxy['kind']> = { 'http:': 'http', 'https:': 'https', 'socks5:': 'socks5', 'socks5h:': 'socks5' }
const DEFAULT_PORTS = { http: 80, https: 443, socks5: 1080 }

/**
 * Reads `http://`, `https://`, `socks5://` or `socks5h://`, with `USER:PASSWORD@` or without; either kind of SOCKS leaves names to the
 * proxy. @throws config_invalid, whose message never has the text in it: a password may stand anywhere in one that is wrong
 */
export function parseUpstreamProxy(text: string): UpstreamProxy {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url) throw invalid('it is not a URL')
  const kind = KINDS[url.protocol]
  if (!kind) throw invalid('its scheme is none of http, https, socks5 and socks5h')
  const host = parseHostname(url.hostname)
  if (!isHostname(host)) throw invalid(`its host is not one: ${host.problem}`)
  if (url.port === '0') throw invalid('its port is 0')
  if (!['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '') throw invalid('it has more than a host and a port')
  return { kind, host, port: url.port === '' ? DEFAULT_PORTS[kind] : Number(url.port), login: readLogin(url, kind) }
}

function readLogin(url: URL, kind: UpstreamProxy['kind']): UpstreamProxy['login'] {
  if (url.username === '' && url.password === '') return undefined
  const [user, password] = [url.username, url.password].map((part) => {
    try {
      return decodeURIComponent(part)
    } catch {
      throw invalid('its user or password has a "%" that starts no escape: write "%25"')
    }
  }) as [string, string]
  // oxlint-disable-next-line no-control-regex -- RFC 7617 §2 rules them out
  if (/[\x00-\x1f\x7f]/.test(user + password)) throw invalid('its user or password has a control character')
  // RFC 7617 §2: the first colon ends the user. RFC 1929 §2: one byte each for the lengths.
  if (kind !== 'socks5' && user.includes(':')) throw invalid('its user has a colon')
  const isTooLong = [user, password].some((part) => Buffer.byteLength(part) > 255)
  if (kind === 'socks5' && (isTooLong || user === '' || password === ''))
    throw invalid('SOCKS takes a user and a password of 1 to 255 bytes')
  return { user, password: new Secret('password of the upstream proxy', password) }
}

function invalid(problem: string): SallyportError {
  return new SallyportError('config_invalid', `the URL of the upstream proxy cannot be used: ${problem}`, {
    hint: 'http://USER:PASSWORD@HOST:PORT, or https, socks5, socks5h; special characters of the password as %XX',
  })
}

/** Connects to a proxy itself. An https proxy is verified like any upstream. I6 @throws upstream_proxy_failed */
export async function dialProxy(proxy: UpstreamProxy, trust: SecureContext): Promise<Socket> {
  try {
    // Its name is the operator's: the system resolves it, and nobody judges where it leads.
    const socket = await dialTcp({ ...proxy, addresses: [proxy.host] })
    return proxy.kind === 'https' ? await secure(socket, proxy, trust, ['http/1.1']) : socket
  } catch (error) {
    const said = error instanceof SallyportError ? error.message : codeOf(error)
    throw new SallyportError('upstream_proxy_failed', `the upstream proxy: ${said}`, { cause: error })
  }
}

/**
 * Dials through a proxy: to a judged address where there is one, so that nobody resolves it again (I4), else to the name.
 * @throws upstream_proxy_failed
 */
export function proxyDial(proxy: UpstreamProxy, trust: SecureContext): Dial {
  const open = proxy.kind === 'socks5' ? openBySocks : openByConnect
  return async (target) => {
    let failure: unknown
    for (const host of target.addresses ?? [target.host]) {
      try {
        return await open(proxy, await dialProxy(proxy, trust), { host, port: target.port })
      } catch (error) {
        failure = error
      }
    }
    throw failure
  }
}

/** Whether requests of this target in plain HTTP go to the proxy as they are, in absolute form, rather than by a tunnel. */
export function takesRequests(proxy: UpstreamProxy, { host, addresses }: Target): boolean {
  // A name with addresses of its own is for the tunnel: in absolute form the proxy would resolve it anew.
  return proxy.kind !== 'socks5' && (addresses === undefined || isIP(host) !== 0)
}

/** The value of Proxy-Authorization (RFC 7617), if one is needed. */
export function proxyAuthorization({ login }: UpstreamProxy): string | undefined {
  return login && `Basic ${Buffer.from(`${login.user}:${login.password.reveal()}`).toString('base64')}`
}

/** What a proxy's refusal amounts to. */
export function refusedByProxy(status: number, where: string): SallyportError {
  return new SallyportError('upstream_proxy_failed', `the upstream proxy refuses ${where} with ${status}`, {
    ...(status === 407 && { hint: 'the operator gives its user and password: --upstream-proxy http://USER:PASSWORD@HOST:PORT' }),
  })
}

type End = { readonly host: string; readonly port: number }

/** RFC 9110 §9.3.6. Gives the socket back when the proxy says yes; closes it otherwise. */
function openByConnect(proxy: UpstreamProxy, socket: Socket, end: End): Promise<Socket> {
  const where = formatAuthority(end.host, end.port)
  const authorization = proxyAuthorization(proxy)
  return new Promise((resolve, reject) => {
    const request = httpRequest({
      method: 'CONNECT',
      path: where,
      headers: { host: where, ...(authorization !== undefined && { 'proxy-authorization': authorization }) },
      createConnection: () => socket,
      maxHeaderSize: LIMITS.headBytesMax,
    })
    const fail = (error: SallyportError): void => {
      clearTimeout(timer)
      socket.destroy()
      reject(error)
    }
    const timer = setTimeout(() => fail(noAnswer('did not answer in time')), LIMITS.connectMs)
    request.once('connect', (response, _socket, head) => {
      const { statusCode = 0 } = response
      if (statusCode < 200 || statusCode > 299) return fail(refusedByProxy(statusCode, where))
      clearTimeout(timer)
      if (head.length > 0) socket.unshift(head)
      resolve(socket)
    })
    request.on('error', (error) => fail(noAnswer(`broke off (${codeOf(error)})`)))
    request.end()
  })
}

/** RFC 1928 and 1929, by the socks package. Its errors carry the password with them: none is kept as a cause. */
async function openBySocks(proxy: UpstreamProxy, socket: Socket, { host, port }: End): Promise<Socket> {
  const { login } = proxy
  // Loaded where it is used: it is 5 MB of an idle gate.
  const { SocksClient } = await import('socks')
  const client = new SocksClient({
    proxy: { host: proxy.host, port: proxy.port, type: 5, ...(login && { userId: login.user, password: login.password.reveal() }) },
    command: 'connect',
    destination: { host, port },
    timeout: LIMITS.connectMs,
  })
  // Sockets here are half-open: the package would wait for a proxy that has ended already.
  const giveUp = (): void => void socket.destroy()
  return new Promise((resolve, reject) => {
    socket.once('end', giveUp)
    client.once('error', ({ message }: Error) => {
      socket.destroy()
      reject(new SallyportError('upstream_proxy_failed', `the upstream proxy does not lead to ${formatAuthority(host, port)} (${message})`))
    })
    client.once('established', () => {
      // The package gives what came behind the answer as an event, a turn later: a server that speaks first would not be heard.
      const early: Buffer[] = []
      const take = (chunk: Buffer): void => void early.push(chunk)
      socket.on('data', take)
      setImmediate(() => {
        socket.off('end', giveUp).off('data', take).pause()
        if (early.length > 0) socket.unshift(Buffer.concat(early))
        resolve(socket)
      })
    })
    client.connect(socket)
  })
}

function noAnswer(problem: string): SallyportError {
  return new SallyportError('upstream_proxy_failed', `the upstream proxy ${problem}`)
}
