/** Every way in, on free ports of loopback. */
export const SAMPLE_WAYS = Object.entries({
  http: '127.0.0.1:0',
  socks: '127.0.0.1:0',
  transparent: '127.0.0.1:0,127.0.0.1:0',
  dns: '127.0.0.1:0',
  gateway: '127.0.0.1:0',
}).flatMap(([way, where]) => [`--${way}`, where])

/** The secret that the sample's credentials write. */
export const SAMPLE_ENV = { SAMPLE_TOKEN: 'sample-token-of-no-worth-0123456789' }

/** A policy as large ones are: 200 rules with paths, 50 credentials with one secret. */
export function samplePolicy(): string {
  const each = (count: number, line: (n: number) => string): string[] => Array.from({ length: count }, (_, n) => line(n))
  return [
    'version: 1',
    'network:',
    '  rules:',
    ...each(199, (n) => `    - {id: r${n}, host: host${n}.example.com, action: allow, paths: ["/v${n}/**"]}`),
    '    - {id: own, host: localhost, methods: [GET, POST], action: allow, addresses: ["127.0.0.0/8", "::1/128"]}',
    'credentials:',
    ...each(50, (n) => `  - {id: c${n}, secret: TOKEN, inject: {domains: [host${n}.example.com], header: X-Token}}`),
    'secrets:',
    '  - {name: TOKEN, source: "env:SAMPLE_TOKEN"}',
    '',
  ].join('\n')
}
