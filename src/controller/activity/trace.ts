import { readFileSync } from 'node:fs'
import { basename, relative, sep } from 'node:path'
import { codeOf, ERRORS, SallyportError } from '../../kernel/errors.ts'
import { formatAuthority, isHostname, parseHostname } from '../../kernel/hostname.ts'
import { builtInRefusal, explainConnection, explainRequest, showPolicy, type Explanation, type Policy } from '../../policy/policy.ts'
import type { ActivityLayer, ActivityLine, ActivityRemedy, ActivityTrace } from '../../wire/activity.ts'

/** A session's policy, as its gate has it. */
export type PolicyOf = (session: string) => {
  readonly policy: Policy
  /** Where its copies are; none for a compose project, whose files are the operator's own. */
  readonly folder?: string
}

export type Traced =
  | { readonly trace: ActivityTrace; readonly layers: readonly ActivityLayer[]; readonly policy: Policy }
  | { readonly problem: string }

/** How the session's policy decides about a request now. */
export function traceOf(line: ActivityLine, decidedBy: string | undefined, policyOf: PolicyOf): Traced {
  if (line.lane === 'mcp') return { problem: 'Which tools of an MCP server may be called stands at the server, not in a rule.' }
  if (line.lane === 'token') return { problem: 'A secret is exchanged where its credential says: no rule is asked.' }
  try {
    const { policy, folder } = policyOf(line.session)
    const place = placing(folder)
    const explained = explain(policy, line)
    if (explained === undefined) return { problem: 'It was refused before any rule was looked at.' }
    const { decision, why, code, hint, rule, candidates, notes, credential, placeholders = [] } = explained
    const isKnown = folder !== undefined && decidedBy !== undefined
    return {
      policy,
      layers: layersOf(policy, folder),
      trace: {
        decision,
        why,
        ...(code !== undefined && { code }),
        ...(hint !== undefined && { hint }),
        ...(rule && { rule: { id: rule.id, at: place(rule.at) } }),
        candidates: candidates.map((candidate) => ({ ...candidate, at: place(candidate.at) })),
        credentials: [...(credential ? [credential] : []), ...placeholders].map((one) => ({
          id: one.id,
          secret: one.secret,
          place: one.place,
          at: place(one.at),
        })),
        notes: [...(isCut(line.path) ? ['its path was longer than what the audit keeps: rules may see another end'] : []), ...notes],
        ...(isKnown && { isChanged: policy.digest !== decidedBy }),
      },
    }
  } catch (error) {
    if (!(error instanceof SallyportError)) throw error
    return { problem: error.code === 'policy_not_found' ? 'The session is over, and its policy went with it.' : error.message }
  }
}

type Explained = Pick<Explanation, 'decision' | 'why' | 'code' | 'hint' | 'rule' | 'candidates' | 'notes' | 'credential' | 'placeholders'>

function explain(policy: Policy, { scheme, host, port, method, path, rule }: ActivityLine): Explained | undefined {
  if (host === undefined || port === undefined) return undefined
  const name = parseHostname(host)
  if (!isHostname(name)) return undefined
  const route = policy.routes.find((one) => `route:${one.name}` === rule)
  if (route !== undefined && method !== undefined && path?.startsWith(route.basePath) === true)
    return explainRequest(policy, `http://sallyport:7070/route/${route.name}${path.slice(route.basePath.length)}`, method)
  if (scheme === undefined || method === undefined || method === 'CONNECT' || path === undefined)
    return explainConnection(policy, name, port)
  return explainRequest(policy, `${scheme}://${formatAuthority(name, port, scheme === 'http' ? 80 : 443)}${path}`, method)
}

function isCut(path: string | undefined): boolean {
  return path !== undefined && /\[cut: \d+ characters\]$/.test(path)
}

const LAYERS: Readonly<Record<string, string>> = {
  global: 'global',
  role: 'role',
  own: "the workspace's own",
  workspace: 'workspace',
  remembered: 'remembered',
  timed: 'allowed for a time',
  'timed-session': 'allowed for this session',
  servers: 'MCP servers',
  'user-servers': "the operator's MCP servers",
  restricted: "the workspace's own, which may only deny or ask",
}

/** What a copy in the folder is of, in words. */
function layerOf(folder: string, file: string): string | undefined {
  const below = relative(folder, file)
  if (below.startsWith('..')) return undefined
  const parts = below.split(sep)
  if (parts.includes('extends'))
    return `preset ${parts
      .slice(parts.indexOf('extends') + 1)
      .join('/')
      .replace(/\.yaml$/, '')}`
  const name = basename(below, '.yaml')
  return LAYERS[name] ?? (name.startsWith('session-') ? 'session' : name)
}

/** `FILE:LINE` as `LAYER:LINE`, where the file is a copy. */
function placing(folder: string | undefined): (at: string) => string {
  return (at) => {
    const [, file = '', rest = ''] = /^(.*?)((?::\d+)*)$/.exec(at) ?? []
    const layer = folder === undefined || file === '' ? undefined : layerOf(folder, file)
    return layer === undefined ? at : `${layer}${rest.replace(':', ', line ').replace(/:\d+$/, '')}`
  }
}

/** The layers that say something. */
function layersOf(policy: Policy, folder: string | undefined): ActivityLayer[] {
  return showPolicy(policy).files.flatMap((file) => {
    if (folder === undefined) return [{ layer: 'project', file }]
    return isEmpty(file) ? [] : [{ layer: layerOf(folder, file) ?? 'policy', file: relative(folder, file) }]
  })
}

function isEmpty(file: string): boolean {
  try {
    return readFileSync(file, 'utf8').trim() === 'version: 1'
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return true
    throw error
  }
}

/** I86: Whether a further rule that allows could let it pass, and why not. */
export function remedyOf(line: ActivityLine, traced: Traced): ActivityRemedy | undefined {
  if (line.decision === 'allow' || line.lane === 'mcp' || line.lane === 'token') return undefined
  const { host, port, code = '', method, path } = line
  const name = host === undefined ? undefined : parseHostname(host)
  if (name === undefined || port === undefined || !isHostname(name)) return no(`${meaningOf(code)} No rule can allow it.`)
  if (code.startsWith('approval_'))
    return no('a rule asks the operator about it, and the strictest rule wins: answer the question, or change that rule')
  if (!SOLVED.has(code)) return no(`${meaningOf(code)} No rule changes that.`)
  if ('trace' in traced) {
    const { policy, trace } = traced
    const builtIn = builtInRefusal(policy, name)
    if (builtIn !== undefined) return no(`${builtIn.message}${builtIn.hint === undefined ? '' : `: ${builtIn.hint}`}`)
    if (policy.effective.mode.value === 'none') return no('network.mode: none lets nothing pass but what the harness needs')
    const stricter = trace.candidates.find(({ matches, action }) => matches && action !== 'allow')
    if (stricter !== undefined) {
      const does = stricter.action === 'deny' ? 'denies it' : 'asks about it'
      return no(`rule "${stricter.id}" (${stricter.at}) ${does}, and the strictest rule wins: change that one`)
    }
  }
  const isRequest = method !== undefined && method !== 'CONNECT'
  return { isPossible: true, host: name, port, ...(isRequest && { method }), ...(path !== undefined && isNameable(path) && { path }) }
}

/** A path that an agent chose could be a pattern: a rule for it would be about more than it. */
function isNameable(path: string): boolean {
  return !isCut(path) && !path.includes('*')
}

function no(why: string): ActivityRemedy {
  return { isPossible: false, why }
}

/** What a rule that allows it would have let pass. */
const SOLVED: ReadonlySet<string> = new Set(['host_not_allowed', 'denied_by_rule'])

function meaningOf(code: string): string {
  return Object.hasOwn(ERRORS, code) ? ERRORS[code as keyof typeof ERRORS].means : 'It was refused.'
}
