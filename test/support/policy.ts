import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { isHostname, parseHostname, type Hostname } from '../../src/kernel/hostname.ts'
import {
  checkPolicy,
  formatDiagnostic,
  loadPolicy,
  type Decision,
  type Facts,
  type Policy,
  type TunnelDecision,
} from '../../src/policy/policy.ts'

/** Real files in a folder of their own, gone when the test ends. */
export function writeFiles(
  files: Readonly<Record<string, string | Uint8Array>>,
): Disposable & { readonly dir: string; at(name: string): string } {
  const dir = mkdtempSync(join(tmpdir(), 'sallyport-policy-'))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true })
    writeFileSync(join(dir, name), text)
  }
  return { dir, at: (name) => join(dir, name), [Symbol.dispose]: () => rmSync(dir, { recursive: true }) }
}

export type Parts = {
  readonly rules?: readonly object[]
  readonly credentials?: readonly object[]
  readonly secrets?: readonly object[]
  readonly routes?: readonly object[]
  /** Other keys of `network`. */
  readonly network?: object
}

const lines = (items: readonly object[]): string => items.map((item) => JSON.stringify(item)).join(',\n')

/** A policy file as text: JSON is YAML as well. Each rule stands on a line of its own, the first on line 2, and allows unless it says otherwise. */
export function policyText({ rules = [], credentials = [], secrets = [], routes = [], network = {} }: Parts): string {
  const settings = JSON.stringify(network).slice(1, -1)
  return `{version: 1, network: {${settings === '' ? '' : `${settings}, `}rules: [\n${lines(rules.map((rule) => ({ action: 'allow', ...rule })))}]},\ncredentials: [\n${lines(credentials)}],\nsecrets: [\n${lines(secrets)}],\nroutes: [\n${lines(routes)}]}\n`
}

export function policyOf(parts: Parts | string, policyDirs: readonly string[] = []): Policy {
  using files = writeFiles({ 'policy.yaml': typeof parts === 'string' ? parts : policyText(parts) })
  return loadPolicy([files.at('policy.yaml')], { policyDirs })
}

/** Errors and warnings as `policy.yaml:LINE: message`. */
export function problemsOf(parts: Parts | string, policyDirs: readonly string[] = []): { errors: string[]; warnings: string[] } {
  using files = writeFiles({ 'policy.yaml': typeof parts === 'string' ? parts : policyText(parts) })
  const { errors, warnings } = checkPolicy([files.at('policy.yaml')], { policyDirs })
  const shorten = (text: string): string => text.replaceAll(`${files.dir}/`, '')
  return {
    errors: errors.map((error) => shorten(formatDiagnostic(error))),
    warnings: warnings.map((warning) => shorten(formatDiagnostic(warning))),
  }
}

export function hostname(text: string): Hostname {
  const host = parseHostname(text)
  if (!isHostname(host)) throw new Error(`"${text}" is not canonical: ${host.problem}`)
  return host
}

/** Facts of `METHOD scheme://host[:port]/path`, taken as they are written. */
export function factsOf(request: string): Facts {
  const match = /^([A-Z]+) (https?):\/\/([^/:]+)(?::(\d+))?(\/.*)$/s.exec(request)
  if (!match) throw new Error(`not a request: ${request}`)
  const [, method = '', scheme, host = '', port, path = ''] = match
  const isPlain = scheme === 'http'
  return {
    method,
    scheme: isPlain ? 'http' : 'https',
    host: hostname(host),
    port: port === undefined ? (isPlain ? 80 : 443) : Number(port),
    path,
  }
}

/** `allow RULE`, `ask RULE`, or the code of the refusal and its rule. */
export function verdict(decision: Decision | TunnelDecision): string {
  return decision.action !== 'deny'
    ? `${decision.action} ${decision.rule.id}`
    : [decision.refusal.code, decision.refusal.rule].filter(Boolean).join(' ')
}
