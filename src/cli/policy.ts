import { SallyportError } from '../kernel/errors.ts'
import {
  checkPolicy,
  explainRequest,
  formatDiagnostic,
  formatPlace,
  loadPolicy,
  showPolicy,
  type Diagnostic,
  type EffectivePolicy,
  type EffectiveRule,
  type Explanation,
  type Policy,
  type SecretSource,
} from '../policy/policy.ts'
import { parseFlags, policyDirs, type Command, type Io } from './command.ts'

const USAGE = `sallyport policy check PATH… [--json]
    Every error and warning of the files and all that they extend. Exits 2 when there are errors.

sallyport policy explain URL [--method METHOD] [--policy PATH]… [--json]
    What would happen to a request: the decision, the rule, the credential by name, and why. Nothing is looked up or sent.

sallyport policy show [--policy PATH]… [--json]
    The policy in force, with the file and line of every part.

Several paths are layers: rules add up, the strictest match decides. Without --policy the paths are those of
SALLYPORT_POLICY, separated by ":".
`

/** `sallyport policy check|explain|show`. */
export const policyCommand: Command = {
  summary: 'check, explain and show policies',
  usage: USAGE,
  run: (argv, io) => Promise.resolve().then(() => runPolicy(argv, io)),
}

function runPolicy([name = '', ...rest]: readonly string[], io: Io): number {
  switch (name) {
    case 'check':
      return check(rest, io)
    case 'explain':
      return explain(rest, io)
    case 'show':
      return show(rest, io)
    default:
      throw new SallyportError('usage', name === '' ? 'policy needs a command' : `policy has no command "${name}"`, {
        hint: 'use check, explain or show',
      })
  }
}

function check(argv: readonly string[], io: Io): number {
  const { values, positionals } = parseFlags(argv, { json: { type: 'boolean' } }, { min: 1, max: Infinity })
  const { errors, warnings, isMissing } = checkPolicy(positionals, { policyDirs: policyDirs(io.env) })
  if (values.json === true) {
    const code = errors.length === 0 ? undefined : isMissing ? 'policy_not_found' : 'policy_invalid'
    io.out(printJson({ ok: errors.length === 0, ...(code && { code }), errors, warnings }))
  } else {
    for (const { what, found } of [
      { what: 'error', found: errors },
      { what: 'warning', found: warnings },
    ]) {
      for (const diagnostic of found) io.out(`${what}  ${formatDiagnostic(diagnostic)}\n`)
    }
    io.out(`${positionals.join(', ')}: ${count(errors, 'error')}, ${count(warnings, 'warning')}\n`)
  }
  return errors.length === 0 ? 0 : 2
}

function explain(argv: readonly string[], io: Io): number {
  const { values, positionals } = parseFlags(
    argv,
    { json: { type: 'boolean' }, method: { type: 'string', default: 'GET' }, policy: { type: 'string', multiple: true } },
    { min: 1, max: 1 },
  )
  const explanation = explainRequest(load(values.policy, io), positionals[0] ?? '', values.method)
  io.out(values.json === true ? printJson(explanation) : printExplanation(explanation))
  return 0
}

function show(argv: readonly string[], io: Io): number {
  const { values } = parseFlags(argv, { json: { type: 'boolean' }, policy: { type: 'string', multiple: true } }, { min: 0, max: 0 })
  const policy = load(values.policy, io)
  io.out(values.json === true ? printJson({ digest: policy.digest, ...showPolicy(policy) }) : printPolicy(showPolicy(policy)))
  return 0
}

function load(paths: readonly string[] | undefined, io: Io): Policy {
  const used = paths ?? (io.env['SALLYPORT_POLICY'] ?? '').split(':').filter((path) => path !== '')
  if (used.length === 0) throw new SallyportError('usage', 'no policy is named', { hint: 'add --policy PATH, or set SALLYPORT_POLICY' })
  return loadPolicy(used, { policyDirs: policyDirs(io.env) })
}

function printExplanation(explanation: Explanation): string {
  const { rule, credential, candidates } = explanation
  const lines = [`${explanation.decision}  ${explanation.method} ${explanation.url}`, `  why         ${explanation.why}`]
  if (explanation.code !== undefined) lines.push(`  code        ${explanation.code}`)
  if (explanation.hint !== undefined) lines.push(`  hint        ${explanation.hint}`)
  if (rule !== undefined) lines.push(`  rule        ${rule.id} (${rule.at})`)
  if (credential !== undefined) lines.push(`  credential  ${credential.id}: secret ${credential.secret} (${credential.at})`)
  for (const note of explanation.notes) lines.push(`  note        ${note}`)
  if (candidates.length > 0) lines.push('  rules for this host')
  for (const { id, at, action, matches, why } of candidates) lines.push(`    ${matches ? '+' : '-'} ${action} ${id} (${at}): ${why}`)
  return `${lines.join('\n')}\n`
}

function printPolicy(policy: EffectivePolicy): string {
  const lines = [
    `files`,
    ...policy.files.map((file) => `  ${file}`),
    `mode ${policy.mode.value}${policy.mode.from ? ` (${formatPlace(policy.mode.from)})` : ' (default)'}`,
  ]
  lines.push(`rules${policy.rules.length === 0 ? ' none: everything is denied' : ''}`)
  for (const rule of policy.rules) lines.push(`  ${rule.action.padEnd(5)}  ${rule.id}  ${describeRule(rule)}  (${formatPlace(rule.from)})`)
  lines.push(`credentials${policy.credentials.length === 0 ? ' none' : ''}`)
  for (const { id, secret, place, domains, methods, paths, from } of policy.credentials) {
    const written = place.kind === 'basic' ? `basic as ${place.username}` : `${place.header}: ${place.prefix}…`
    lines.push(
      `  ${id}  ${[domains.join(' '), methods?.join(' '), paths?.join(' ')].filter(Boolean).join('  ')}  ${written}  secret ${secret}  (${formatPlace(from)})`,
    )
  }
  lines.push(`secrets${policy.secrets.length === 0 ? ' none' : ''}`)
  for (const { name, source, from } of policy.secrets) lines.push(`  ${name}  ${describeSource(source)}  (${formatPlace(from)})`)
  return `${lines.join('\n')}\n`
}

function describeRule(rule: EffectiveRule): string {
  const parts = [`${rule.host}:${rule.ports.join(',')}`, rule.methods?.join(' '), rule.paths?.join(' ')]
  if (rule.tls === 'passthrough') parts.push('passthrough')
  if (rule.upgrade !== undefined) parts.push(`upgrade ${rule.upgrade}`)
  if (rule.plaintext === 'accept') parts.push('plaintext accepted')
  if (rule.addresses.length > 0) parts.push(`addresses ${rule.addresses.join(' ')}`)
  return parts.filter((part) => part !== undefined).join('  ')
}

function describeSource(source: SecretSource): string {
  switch (source.kind) {
    case 'env':
      return `env:${source.variable}`
    case 'file':
      return `file:${source.path}`
    default:
      // Arguments of a command may be private: its name is enough to find it.
      return `exec:${source.argv[0] ?? ''}${source.argv.length > 1 ? ' …' : ''}`
  }
}

function count(found: readonly Diagnostic[], what: string): string {
  return `${found.length} ${what}${found.length === 1 ? '' : 's'}`
}

function printJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
