import { createHash } from 'node:crypto'
import { SallyportError } from '../kernel/errors.ts'
import { judgeAddresses, judgeName } from './addresses.ts'
import { assemble, formatDiagnostic } from './assemble.ts'
import { findConflicts } from './conflicts.ts'
import { compileCredentials, partsOf, placeholdersOf } from './credentials.ts'
import { readDocument } from './document.ts'
import { findResourceProblems, grantSecrets, routeOnlyOf } from './grants.ts'
import { readLayers, type PolicyInput, type Sources } from './layers.ts'
import type { CredentialBinding, Diagnostic, EffectiveCredential, EffectivePolicy, EffectiveRule, Policy } from './model.ts'
import { findNames } from './names.ts'
import { parseRule } from './ranking.ts'
import { withRestricted } from './gateway-section.ts'
import { lintHostCommands, samplesOf } from './host-commands/lints.ts'
import { writtenRules } from './host-commands/section.ts'
import { readRestricted } from './restricted.ts'
import { toRoute } from './routes.ts'
import { compileRules } from './rules.ts'
import { filesystemOf, sessionOf } from './sections.ts'
import { shapeProblems } from './shape.ts'
import { findTcpPorts } from './tcp-ports.ts'

export type {
  AllowedRule,
  CredentialBinding,
  Decision,
  Diagnostic,
  EffectiveCredential,
  EffectiveHostCommands,
  EffectivePolicy,
  EffectiveRule,
  Facts,
  McpServer,
  Place,
  Policy,
  Route,
  SecretGrant,
  TunnelDecision,
} from './model.ts'
export { isForGate, isUseOfGate } from './grants.ts'
export { isOfGateAlone } from './lints.ts'
export { closedPolicy } from './closed.ts'
export { classifyAddress, parseAddressRange } from './addresses.ts'
export { formatDiagnostic, formatPlace } from './assemble.ts'
export { describeAlso, describePlace } from './describe.ts'
export { describeEffective, type DescribedLine } from './describe-effective.ts'
export { disabledMethods } from './gateway-section.ts'
export { decideHostCommand, exactPattern, type HostCommandDecision } from './host-commands/host-commands.ts'
export { samplesOf }
export { explainRequest, type Explanation } from './explain.ts'
export { builtInRefusal, explainConnection } from './explain-connection.ts'
export type { ExplainedAnswers, ExplainedCredential } from './explain-credentials.ts'
export { readText, type PolicyInput } from './layers.ts'
export { policyJsonSchema } from './schema.ts'
export { describeSource, parseSource } from './sources.ts'
export { looksRandom, looksSecret, looksSecretArgument, namesSecret, readValue, secretsIn } from './mcp-values.ts'
export { routeOfServer, secretsOfServer } from './mcp-servers.ts'
export { allowsTool } from '../wire/tool-names.ts'
export { readWhole } from './whole-read.ts'

export type PolicyOptions = {
  /** Where `extends` looks for `NAME.yaml`, in order. */
  readonly policyDirs: readonly string[]
  /** Files that may only deny or ask, about what the others let through: the agent's own side. I29 */
  readonly restricted?: readonly PolicyInput[]
}

/** What a policy was made of, to the letter. */
export type PolicySources = Sources & { readonly restricted: readonly { readonly file: string; readonly text: string }[] }

/**
 * Reads policy files as layers and compiles them. Nothing is read again afterwards.
 * @throws policy_invalid, policy_not_found with every error in the message, one a line, each `file:line: …`; policy_untrusted
 *   when nothing is wrong but that restricted files say more than they may
 */
export function loadPolicy(inputs: readonly PolicyInput[], options: PolicyOptions): Policy {
  return loadPolicyWithSources(inputs, options).policy
}

/** The same, with the text of every file that was read. @throws policy_invalid, policy_not_found, policy_untrusted */
export function loadPolicyWithSources(
  inputs: readonly PolicyInput[],
  options: PolicyOptions,
): { readonly policy: Policy; readonly sources: PolicySources } {
  const { errors, untrusted, warnings, isMissing, build, sources } = read(inputs, options)
  const all = inOrder([...errors, ...untrusted])
  if (errors.length > 0) {
    throw new SallyportError(isMissing ? 'policy_not_found' : 'policy_invalid', all.map(formatDiagnostic).join('\n'), {
      hint: 'the policy is refused as a whole until every line above is settled',
    })
  }
  if (untrusted.length > 0) {
    throw new SallyportError('policy_untrusted', all.map(formatDiagnostic).join('\n'), {
      hint: 'read the file; then accept it as it is with: sallyport trust, or take these lines out of it',
    })
  }
  return { policy: build(warnings), sources }
}

/** Every error and every warning of the files and all that they extend. Never throws for what is in them. */
export function checkPolicy(
  inputs: readonly PolicyInput[],
  options: PolicyOptions,
): { errors: readonly Diagnostic[]; warnings: readonly Diagnostic[]; isMissing: boolean } {
  const { errors, untrusted, warnings, isMissing } = read(inputs, options)
  return { errors: inOrder([...errors, ...untrusted]), warnings, isMissing }
}

/** What is wrong with one file by itself: its YAML and its shape, whatever the files are that it stands among. */
export function checkFile(file: string, text: string): readonly Diagnostic[] {
  const { document, errors } = readDocument(file, text)
  return document === undefined ? errors : [...errors, ...shapeProblems(document).map(({ diagnostic }) => diagnostic)]
}

/** What a restricted file says beyond denials and questions, each by name: what trusting it would allow. And what is wrong with it. */
export function inspectRestricted(input: PolicyInput): { readonly errors: readonly Diagnostic[]; readonly allows: readonly Diagnostic[] } {
  const { errors, untrusted } = readRestricted([input])
  return { errors: inOrder(errors), allows: inOrder(untrusted) }
}

/** What is in force, and for every part where it was written. */
export function showPolicy(policy: Policy): EffectivePolicy {
  return policy.effective
}

function read(inputs: readonly PolicyInput[], options: PolicyOptions) {
  const { layers, errors: fileErrors, isMissing, doubts, sources } = readLayers(inputs, options.policyDirs)
  const restricted = readRestricted(options.restricted ?? [])
  const { effective, errors: partErrors, damage } = assemble(layers)
  const names = findNames(layers, doubts)
  const rules = effective.rules.map(parseRule)
  const parts = effective.credentials.flatMap(partsOf)
  const conflicts = findConflicts(effective, rules, parts, damage, doubts)
  const commands = lintHostCommands(writtenRules(layers), effective.hostCommands.mode)
  const resources = findResourceProblems(effective, doubts.has('routes') || damage.hasRoutes)
  return {
    errors: inOrder([
      ...fileErrors,
      ...partErrors,
      ...names.errors,
      ...conflicts.errors,
      ...commands.errors,
      ...resources,
      ...restricted.errors,
    ]),
    untrusted: restricted.untrusted.map((found) => ({ ...found, message: `${found.message}: ${UNTRUSTED}` })),
    warnings: inOrder([...conflicts.warnings, ...commands.warnings, ...names.warnings]),
    isMissing: isMissing || restricted.isMissing,
    sources: { ...sources, restricted: restricted.files },
    build,
  }

  function build(warnings: readonly Diagnostic[], at?: number): Policy {
    const standing = rules.filter(({ rule }) => !isOver(rule, at))
    const ends = standing.flatMap(({ rule }) => rule.expiresAt ?? [])
    const credentials = effective.credentials.map(toBinding)
    const bindings = new Map(credentials.map((credential) => [credential.id, credential]))
    const { seePaths, ...bound } = compileCredentials(parts, bindings, routeOnlyOf(effective))
    const whole: EffectivePolicy = {
      ...effective,
      files: [...effective.files, ...restricted.files.map(({ file }) => file)],
      rules: [...effective.rules, ...restricted.rules],
      ...withRestricted(effective, restricted),
    }
    const compiled = compileRules([...standing, ...restricted.rules.map(parseRule)], effective.mode.value, seePaths)
    const policy: Policy = {
      ...compiled,
      tcpPorts: findTcpPorts(standing, effective.mode.value, compiled.decideTunnel),
      routes: effective.routes.map(toRoute),
      judgeAddresses,
      judgeName,
      ...bound,
      placeholders: placeholdersOf(credentials),
      secrets: grantSecrets(effective),
      credentials,
      filesystem: filesystemOf(effective),
      session: sessionOf(effective),
      hostCommands: whole.hostCommands,
      gateway: whole.gateway,
      mcpServers: effective.mcpServers.map(({ from: _from, ...server }) => server),
      isLeaseRequired: effective.lease.value === 'required',
      warnings,
      effective: whole,
      // I81
      asOf: (now) => (rules.every(({ rule }) => rule.expiresAt === undefined) ? policy : build(warnings, now)),
      ...(at !== undefined && { at }),
      ...(ends.length > 0 && { nextEnd: Math.min(...ends) }),
      digest: digestOf(whole),
    }
    return policy
  }
}

/** Where no moment is known a rule that ends is none: it could be over. I9 */
function isOver({ expiresAt }: Pick<EffectiveRule, 'expiresAt'>, at: number | undefined): boolean {
  return expiresAt !== undefined && (at === undefined || at >= expiresAt)
}

const UNTRUSTED = "a workspace's own policy may only deny or ask until it is trusted"

function toBinding({
  domains: _domains,
  methods: _methods,
  paths: _paths,
  ofServer: _ofServer,
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
