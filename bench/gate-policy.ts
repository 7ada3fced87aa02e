import { port } from './places.ts'

export type PolicySize = { readonly rules: number; readonly credentials: number }
/** What the goals are for. */
export const USUAL_SIZE: PolicySize = { rules: 200, credentials: 50 }

/**
 * The policy of the gate that is measured: one plain upstream, one that is intercepted with a credential, one that is passed
 * through, and among them so many more rules and credentials for other hosts, as a service's policy has.
 */
export function gatePolicy({ rules, credentials }: PolicySize): string {
  const others = Array.from({ length: Math.max(0, rules - 3) }, (_, i) => otherRule(i))
  const half = others.length / 2
  return `version: 1
network:
  mode: restricted
  rules:
${others.slice(0, half).join('')}    - {id: plain, host: 127.0.0.1, ports: [${port(0)}], action: allow, addresses: ["127.0.0.0/8"]}
    - {id: intercept, host: localhost, ports: [${port(1)}, ${port(2)}], action: allow, tls: intercept, addresses: ["127.0.0.0/8", "::1/128"]}
    - {id: passthrough, host: localhost, ports: [${port(3)}], action: allow, tls: passthrough, addresses: ["127.0.0.0/8", "::1/128"]}
${others.slice(half).join('')}credentials:
${Array.from({ length: Math.max(0, credentials - 1) }, (_, i) => otherCredential(i)).join('')}  - {id: bench, secret: BENCH_TOKEN, inject: {domains: [localhost], header: X-Inject}}
secrets:
  - {name: BENCH_TOKEN, source: "env:BENCH_TOKEN"}
`
}

/** The host of one of the other rules, and a path that it allows. */
export function otherRequest(i: number): { host: string; path: string } {
  return { host: `host${i}.example.com`, path: `/v${i}/items?page=2` }
}

function otherRule(i: number): string {
  return `    - {id: r${i}, host: host${i}.example.com, action: allow, paths: ["/v${i}/**"]}\n`
}

function otherCredential(i: number): string {
  return `  - {id: c${i}, secret: BENCH_TOKEN, inject: {domains: [host${i}.example.com], header: X-Inject}}\n`
}
