/** Protocols, as the README's table names its rows. */
export const PROTOCOLS = [
  'HTTP/1.1',
  'HTTPS, HTTP/1.1',
  'HTTPS, HTTP/2',
  'gRPC',
  'WebSocket',
  'server-sent events',
  'TLS passed through',
  'other TCP',
] as const
export type Protocol = (typeof PROTOCOLS)[number]

/** Ways in, as it names its columns. */
export const WAYS = ['HTTP proxy, whole URL', 'HTTP proxy, CONNECT', 'SOCKS5', 'transparent', 'reverse route'] as const
export type WayIn = (typeof WAYS)[number]

/** What does not go by a way, and why. All else does. */
const REFUSED: Readonly<Partial<Record<WayIn, readonly Protocol[]>>> = {
  // One request at a time, in HTTP/1.1; the gate itself speaks HTTP/2 to the upstream where it can.
  'HTTP proxy, whole URL': ['HTTPS, HTTP/2', 'gRPC', 'TLS passed through', 'other TCP'],
  'reverse route': ['HTTPS, HTTP/2', 'gRPC', 'TLS passed through', 'other TCP'],
}

/** Every cell of the table. A test of the same title stands behind each. */
export const WAYS_TABLE: readonly {
  readonly way: WayIn
  readonly protocol: Protocol
  readonly isCarried: boolean
  readonly title: string
}[] = WAYS.flatMap((way) =>
  PROTOCOLS.map((protocol) => {
    const isCarried = REFUSED[way]?.includes(protocol) !== true
    return { way, protocol, isCarried, title: `${way} ${isCarried ? 'carries' : 'refuses'} ${protocol}` }
  }),
)

/** The table as the README has it. */
export function renderWaysTable(): string {
  const cell = (protocol: Protocol, way: WayIn): string =>
    WAYS_TABLE.find((entry) => entry.way === way && entry.protocol === protocol)?.isCarried === true ? 'yes' : 'no'
  const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |\n`
  return (
    row(['', ...WAYS]) +
    row(['---', ...WAYS.map(() => '---')]) +
    PROTOCOLS.map((protocol) => row([protocol, ...WAYS.map((way) => cell(protocol, way))])).join('')
  )
}
