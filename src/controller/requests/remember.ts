import type { DomainSubject } from '../../wire/question.ts'
import { readNetworkRule } from '../approvals/approvals.ts'

/** Why a rule is not the one that was offered, nor a narrower one. A command's is offered word for word, and has no narrower one. I41 */
export function rememberComplaint(kind: 'host_command' | 'network', offered: string, rule: string): string | undefined {
  if (rule === offered) return undefined
  if (kind === 'host_command') return 'of a command exactly the words that were asked about are remembered'
  const [wide, narrow] = [readNetworkRule(offered), readNetworkRule(rule)]
  if (wide === undefined || narrow === undefined) return 'it is not a rule with host, ports, methods and paths, in JSON'
  if (narrow.host !== wide.host) return 'it is for another host'
  for (const field of ['ports', 'methods', 'paths'] as const) {
    const allowed: readonly unknown[] | undefined = wide[field]
    const asked: readonly unknown[] | undefined = narrow[field]
    if (allowed !== undefined && (asked === undefined || asked.some((one) => !allowed.includes(one)))) return `it has more ${field}`
  }
  return undefined
}

/** The rule that an answer about this request can make: this request, and no other. */
export function ruleOfRequest({ host, port, method, path }: DomainSubject): string {
  return JSON.stringify({ host, ports: [port], methods: [method], ...(path !== undefined && { paths: [path] }) })
}

/** Whether a remembered rule is about this request: its paths are spelled out, none is a pattern. I41 */
export function coversRequest(rule: string, { host, port, method, path }: DomainSubject): boolean {
  const allowed = readNetworkRule(rule)
  if (allowed === undefined || allowed.host !== host || !allowed.ports.includes(port) || !allowed.methods.includes(method)) return false
  return path === undefined ? allowed.paths === undefined : (allowed.paths?.includes(path) ?? true)
}
