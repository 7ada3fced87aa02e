import { resolve } from 'node:path'
import { inputsOf, layersOf, type LayerProblem, type SessionLayers } from '../controller/sessions/session-layers.ts'
import { openTrust } from '../controller/sessions/workspace-trust.ts'
import { SallyportError } from '../kernel/errors.ts'
import { system } from '../kernel/system.ts'
import { visible, visibleJson } from '../kernel/visible.ts'
import {
  checkPolicy,
  describeEffective,
  explainRequest,
  formatDiagnostic,
  formatPlace,
  loadPolicy,
  showPolicy,
  type DescribedLine,
  type Diagnostic,
  type EffectivePolicy,
  type Policy,
} from '../policy/policy.ts'
import { explainCommand, lintCommands } from '../controller/policy-files/explain-command.ts'
import { explainedCommand, explainedRequest } from '../controller/policy-files/explained-rows.ts'
import type { ExplainedView } from '../wire/policies.ts'
import { homeOf, parseFlags, parseVerb, policyDirs, type Command, type Io } from './command.ts'

const CHECK = 'sallyport policy check PATH… [--workspace DIR] [--role NAME] [--json]'
const EXPLAIN = 'sallyport policy explain URL [--method METHOD] [--policy PATH]… [--workspace DIR] [--role NAME] [--json]'
const EXPLAIN_COMMAND = 'sallyport policy explain --command LINE [--cwd DIR] [--policy PATH]… [--workspace DIR] [--role NAME] [--json]'
const SHOW = 'sallyport policy show PATH… [--workspace DIR] [--role NAME] [--json]'

const USAGE = `usage: ${CHECK}
       ${EXPLAIN}
       ${EXPLAIN_COMMAND}
       ${SHOW}

sallyport policy check: every error and warning of the files and all that they extend.
sallyport policy explain: what would happen to a request: the decision, the rule, the credential by name, and why. Nothing is
looked up or sent, and no secret is read. http://sallyport:7070/route/NAME/… is explained by where the route leads.
With --command: what would become of that command, were the host asked to run it. Nothing is run.
sallyport policy show: the policy in force, with the file and line of every part.

  --policy PATH      a policy file; may be given several times. check and show take it in place of PATH…
  --workspace DIR    the policy of a session in this workspace: the files of the home folder's policies/, what the workspace
                     brings itself, and those named here as its last layers
  --role NAME        the same with the role of that name (in the current folder, without --workspace)
  --method METHOD    of the request that explain is about, in upper case (default GET)
  --command LINE     of the host, as a line; what only a shell could run is said to be that
  --cwd DIR          the folder of the workspace that it would run in (default its top)
  --json             one JSON document

Several files are layers: rules add up, the strictest match decides. When explain and show are given none, they are those of
SALLYPORT_POLICY, separated by ":".

Exit code: check 0 no errors (there may be warnings), 2 errors; explain 0 it could answer, whether allowed or denied; show 0;
each 2 for a wrong command line and for a policy that cannot be loaded.
`

/** `sallyport policy check|explain|show`. */
export const policyCommand: Command = {
  summary: 'check, explain and show policies',
  usage: USAGE,
  async run([name, ...rest], io) {
    switch (parseVerb('policy', name, ['check', 'explain', 'show'])) {
      case 'check':
        return check(rest, io)
      case 'explain':
        return explain(rest, io)
      case 'show':
        return show(rest, io)
    }
  },
}

const LAYER_FLAGS = {
  policy: { type: 'string', multiple: true },
  workspace: { type: 'string' },
  role: { type: 'string' },
} as const

type Asked = { readonly workspace?: string | undefined; readonly role?: string | undefined }

async function check(argv: readonly string[], io: Io): Promise<number> {
  const { paths = [], isJson, asked } = readPaths(argv, CHECK)
  const layers = await sessionLayers(paths, asked, io)
  if (paths.length === 0 && layers === undefined)
    throw new SallyportError('usage', 'PATH is missing: name the policy file to check', { hint: `usage: ${CHECK}` })
  const found = checkPolicy(layers?.files ?? paths, { policyDirs: policyDirs(io.env), restricted: layers?.restricted ?? [] })
  const of = (severity: LayerProblem['severity']): Diagnostic[] =>
    (layers?.problems ?? [])
      .filter((problem) => problem.severity === severity)
      .map(({ file, message }) => ({ file, line: 0, column: 0, message }))
  const [errors, warnings] = [
    [...of('error'), ...found.errors],
    [...of('warning'), ...found.warnings, ...(await commandWarnings(layers, paths, asked, io, found.errors.length > 0))],
  ]
  if (isJson) {
    const code = errors.length === 0 ? undefined : found.isMissing ? 'policy_not_found' : 'policy_invalid'
    io.out(printJson({ ok: errors.length === 0, ...(code && { code }), errors, warnings }))
  } else {
    for (const { what, list } of [
      { what: 'error', list: errors },
      { what: 'warning', list: warnings },
    ]) {
      for (const diagnostic of list) io.out(`${what}  ${visible(formatDiagnostic(diagnostic))}\n`)
    }
    const names = layers === undefined ? paths : [...layers.files, ...layers.restricted].map(({ file }) => file)
    io.out(`${names.join(', ') || 'no layer'}: ${count(errors, 'error')}, ${count(warnings, 'warning')}\n`)
  }
  return errors.length === 0 ? 0 : 2
}

/** What is known of the programs that rules allow. Of files with errors nothing is in force. */
async function commandWarnings(
  layers: SessionLayers | undefined,
  paths: readonly string[],
  asked: Asked,
  io: Io,
  hasErrors: boolean,
): Promise<Diagnostic[]> {
  if (hasErrors) return []
  const inputs = layers === undefined ? { files: paths, restricted: [] } : inputsOf(layers)
  const { hostCommands } = loadPolicy(inputs.files, { policyDirs: policyDirs(io.env), restricted: inputs.restricted })
  return lintCommands(hostCommands, surroundings(asked.workspace, io))
}

/** The daemon's ports are its own to know: here the one that it takes when none is named is meant. */
function surroundings(workspace: string | undefined, io: Io): { home: string; workspace: string; operatorPorts: readonly number[] } {
  return { home: homeOf(io.env), workspace: resolve(workspace ?? '.'), operatorPorts: [] }
}

async function explain(argv: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseFlags(
    argv,
    {
      json: { type: 'boolean' },
      method: { type: 'string' },
      command: { type: 'string' },
      cwd: { type: 'string' },
      ...LAYER_FLAGS,
    },
    { min: 0, max: 1, names: ['URL'], usage: EXPLAIN },
  )
  const [url] = positionals
  if (url === undefined && values.command === undefined) throw new SallyportError('usage', 'URL is missing', { hint: `usage: ${EXPLAIN}` })
  if (values.command === undefined ? values.cwd !== undefined : url !== undefined || values.method !== undefined)
    throw new SallyportError('usage', 'a URL has a --method, a --command has a --cwd: explain is about one of them', {
      hint: `usage: ${EXPLAIN}\n       ${EXPLAIN_COMMAND}`,
    })
  const { policy } = await load(values.policy, values, io)
  if (values.command !== undefined) {
    const explained = await explainCommand(
      policy.hostCommands,
      { command: values.command },
      values.cwd ?? '.',
      surroundings(values.workspace, io),
      system.now(),
    )
    io.out(values.json === true ? visibleJson(explained) : visible(printExplained(explainedCommand(explained))))
    return 0
  }
  const explanation = explainRequest(policy.asOf(system.now()), url ?? '', values.method ?? 'GET')
  io.out(values.json === true ? printJson(explanation) : printExplained(explainedRequest(explanation)))
  return 0
}

async function show(argv: readonly string[], io: Io): Promise<number> {
  const { paths, isJson, asked } = readPaths(argv, SHOW)
  const { policy, layers } = await load(paths, asked, io)
  const kinds = layers && [...layers.files.map(({ layer, file }) => ({ layer, file })), ...layers.restricted.map(restrictedLayer)]
  io.out(
    isJson
      ? printJson({ digest: policy.digest, ...(kinds && { layers: kinds }), ...showPolicy(policy) })
      : printPolicy(showPolicy(policy), new Map(kinds?.map(({ layer, file }) => [file, layer]))),
  )
  return 0
}

function restrictedLayer({ file }: { readonly file: string }): { layer: string; file: string } {
  return { layer: "the workspace's own, which may only deny or ask", file }
}

/** Files as arguments or by --policy. Not both: which is the later layer would be a guess. */
function readPaths(argv: readonly string[], usage: string): { paths: readonly string[] | undefined; isJson: boolean; asked: Asked } {
  const { values, positionals } = parseFlags(argv, { json: { type: 'boolean' }, ...LAYER_FLAGS }, { min: 0, max: Infinity, usage })
  if (values.policy !== undefined && positionals.length > 0) {
    throw new SallyportError('usage', `"${positionals[0] ?? ''}" and --policy both name policy files: which comes first is not clear`, {
      hint: `name all files one way; usage: ${usage}`,
    })
  }
  const { workspace, role } = values
  const paths = values.policy ?? (positionals.length > 0 ? positionals : undefined)
  return { paths, isJson: values.json === true, asked: { workspace, role } }
}

/** All layers of a session, where one is asked about. */
async function sessionLayers(paths: readonly string[], { workspace, role }: Asked, io: Io): Promise<SessionLayers | undefined> {
  if (workspace === undefined && role === undefined) return undefined
  const home = homeOf(io.env)
  return layersOf({ home, workspace: workspace ?? '.', role, sessionFiles: paths, trust: openTrust(home, system) })
}

async function load(paths: readonly string[] | undefined, asked: Asked, io: Io): Promise<{ policy: Policy; layers?: SessionLayers }> {
  const layers = await sessionLayers(paths ?? [], asked, io)
  if (layers !== undefined) {
    const { files, restricted } = inputsOf(layers)
    return { policy: loadPolicy(files, { policyDirs: policyDirs(io.env), restricted }), layers }
  }
  const used = paths ?? (io.env['SALLYPORT_POLICY'] ?? '').split(':').filter((path) => path !== '')
  if (used.length === 0)
    throw new SallyportError('usage', 'no policy is named', { hint: 'add --policy PATH or --workspace DIR, or set SALLYPORT_POLICY' })
  return { policy: loadPolicy(used, { policyDirs: policyDirs(io.env) }) }
}

function printExplained({ action, what, rows, candidates }: ExplainedView): string {
  const lines = [`${action}  ${what}`, ...rows.map(([label, text]) => `  ${label.padEnd(11)} ${text}`)]
  if (candidates.length > 0) lines.push('  rules for this host')
  for (const { matches, text } of candidates) lines.push(`    ${matches ? '+' : '-'} ${text}`)
  return `${lines.join('\n')}\n`
}

/** @param layers by file, whose word it is */
function printPolicy(policy: EffectivePolicy, layers: ReadonlyMap<string, string>): string {
  const files = policy.files.map((file) => `  ${file}${layers.has(file) ? `  (${layers.get(file) ?? ''})` : ''}`)
  return `${['files', ...files, ...describeEffective(policy).map(printLine)].join('\n')}\n`
}

function printLine({ text, from, depth, isSetting }: DescribedLine): string {
  const place = from === undefined ? (isSetting ? ' (default)' : '') : `${isSetting ? ' ' : '  '}(${formatPlace(from)})`
  return `${'  '.repeat(depth)}${text}${place}`
}

function count(found: readonly Diagnostic[], what: string): string {
  return `${found.length} ${what}${found.length === 1 ? '' : 's'}`
}

function printJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
