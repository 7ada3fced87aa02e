import { createHash } from 'node:crypto'
import { SallyportError } from '../kernel/errors.ts'
import { judgeAddresses, judgeName } from './addresses.ts'
import { assemble, formatDiagnostic } from './assemble.ts'
import { findConflicts } from './conflicts.ts'
import { compileCredentials, partsOf, placeholdersOf } from './credentials.ts'
import { findResourceProblems, grantSecrets, routeOnlyOf } from './grants.ts'
import { readLayers } from './layers.ts'
import type { CredentialBinding, Diagnostic, EffectiveCredential, EffectivePolicy, Policy } from './model.ts'
import { findNames } from './names.ts'
import { parseRule } from './ranking.ts'
import { toRoute } from './routes.ts'
import { compileRules } from './rules.ts'

export type {
  AllowedRule,
  CredentialBinding,
  Decision,
  Diagnostic,
  EffectiveCredential,
  EffectivePolicy,
  EffectiveRoute,
  EffectiveRule,
  Facts,
  Place,
  Policy,
  Route,
  SecretGrant,
  TunnelDecision,
} from './model.ts'
export { classifyAddress, parseAddressRange } from './addresses.ts'
export { formatDiagnostic, formatPlace } from './assemble.ts'
export { describeAlso, describeBudget, describeExchange, describeFile, describePlace } from './describe.ts'
export { explainRequest, type Explanation } from './explain.ts'
export type { ExplainedAnswers, ExplainedCredential } from './explain-credentials.ts'
export { policyJsonSchema } from './schema.ts'
export { describeSource, parseSource } from './sources.ts'

/** Where `extends` looks for `NAME.yaml`, in order. */
export type PolicyOptions = { readonly policyDirs: readonly string[] }

/**
 * Reads policy files as layers and compiles them. Nothing is read again afterwards.
 * @throws policy_invalid, policy_not_found with every error in the message, one a line, each `file:line: …`
 */
export function loadPolicy(paths: readonly string[], options: PolicyOptions): Policy {
  const { errors, warnings, isMissing, build } = read(paths, options)
  if (errors.length > 0) {
    throw new SallyportError(isMissing ? 'policy_not_found' : 'policy_invalid', errors.map(formatDiagnostic).join('\n'), {
      hint: 'the policy is refused as a whole until every line above is settled',
    })
  }
  return build(warnings)
}

/** Every error and every warning of the files and all that they extend. Never throws for what is in them. */
export function checkPolicy(
  paths: readonly string[],
  options: PolicyOptions,
): { errors: readonly Diagnostic[]; warnings: readonly Diagnostic[]; isMissing: boolean } {
  const { errors, warnings, isMissing } = read(paths, options)
  return { errors, warnings, isMissing }
}

/** What is in force, and for every part where it was written. */
export function showPolicy(policy: Policy): EffectivePolicy {
  return policy.effective
}

function read(paths: readonly string[], options: PolicyOptions) {
  const { layers, errors: fileErrors, isMissing, doubts } = readLayers(paths, options.policyDirs)
  const { effective, errors: partErrors, damage } = assemble(layers)
  const names = findNames(layers, doubts)
  const rules = effective.rules.map(parseRule)
  const parts = effective.credentials.flatMap(partsOf)
  const conflicts = findConflicts(effective, rules, parts, damage, doubts)
  const resources = findResourceProblems(effective, doubts.has('routes') || damage.hasRoutes)
  const errors = inOrder([...fileErrors, ...partErrors, ...names.errors, ...conflicts.errors, ...resources])
  return { errors, warnings: inOrder([...conflicts.warnings, ...names.warnings]), isMissing, build }

  function build(warnings: readonly Diagnostic[]): Policy {
    const credentials = effective.credentials.map(toBinding)
    const bindings = new Map(credentials.map((credential) => [credential.id, credential]))
    const { seePaths, ...bound } = compileCredentials(parts, bindings, routeOnlyOf(effective))
    return {
      ...compileRules(rules, effective.mode.value, seePaths),
      routes: effective.routes.map(toRoute),
      judgeAddresses,
      judgeName,
      ...bound,
      placeholders: placeholdersOf(credentials),
      secrets: grantSecrets(effective),
      credentials,
      isLeaseRequired: effective.lease.value === 'required',
      warnings,
      effective,
      digest: digestOf(effective),
    }
  }
}

function toBinding({
  domains: _domains,
  methods: _methods,
  paths: _paths,
  from: _from,
  ...binding
}: EffectiveCredential): CredentialBinding {
  return binding
}

/** By file in the order of their first finding, then by line. */
function inOrder(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  const files = [...new Set(diagnostics.map((diagnostic) => diagnostic.file))]
  return diagnostics.toSorted((a, b) => files.indexOf(a.file) - files.indexOf(b.file) || a.line - b.line || a.column - b.column)
}

function digestOf({ files: _files, ...policy }: EffectivePolicy): string {
  const said = JSON.stringify(policy, (key, value: unknown) => (key === 'from' ? undefined : value))
  return createHash('sha256').update(said).digest('hex')
}
