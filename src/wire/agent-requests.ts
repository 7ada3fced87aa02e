import * as z from 'zod'
import { LIMITS } from '../kernel/limits.ts'
import type { AgentMethod } from './agent-methods.ts'
import { OutputView, RequestView } from './agent-views.ts'

export { AGENT_METHOD_NAMES, isAgentMethod, type AgentMethod } from './agent-methods.ts'
export type { OutputPiece, OutputView, RequestStatus, RequestView } from './agent-views.ts'

/** One method that an agent may call: the same for every way of calling it. */
export type AgentMethodEntry = {
  /** Its name where names are `[a-z0-9_]`: that of the MCP tool. Clients put their own in front of it and stop at 63 characters. */
  readonly tool: string
  readonly title: AgentMethod
  /** For a model: what it does, what comes back, and what to do next. */
  readonly description: string
  readonly verb: 'GET' | 'POST' | 'DELETE'
  /** Below the gateway's origin. `{name}` is the parameter of that name; the others are in the query, or of a POST in the body. */
  readonly path: string
  /** Of an answer that is no refusal. */
  readonly status: 200 | 202
  /** Over HTTP the answer is a stream of server-sent events, which calls the method again and again. */
  readonly isStream?: true
  /** A plain object: some clients take neither references nor alternatives at its top. What goes beyond is checked all the same. */
  readonly params: z.ZodObject
  readonly result: z.ZodObject
  /** As MCP has them (2025-06-18, ToolAnnotations). */
  readonly annotations: {
    readonly readOnlyHint: boolean
    readonly destructiveHint: boolean
    readonly idempotentHint: boolean
    readonly openWorldHint: boolean
  }
  /** What a call may have at the gateway, as JSON. */
  readonly bodyBytesMax: number
  /** Calls of one session in the long run, and at once. */
  readonly callsPerMinuteMax: number
  readonly burstCallsMax: number
}

const Id = z
  .string()
  .regex(/^[a-z0-9]{16,64}$/)
  .describe('The id of the request, as the call that began it answered.')
const Reason = z.string().max(LIMITS.reasonCharsMax).default('').describe('Why you need it, in a sentence for the person who is asked.')
const WaitSeconds = z
  .number()
  .min(0)
  .max(LIMITS.requestWaitMaxMs / 1_000)
  .default(LIMITS.requestWaitMs / 1_000)
  .describe('Seconds to wait at most.')
const Argv = z
  .array(z.string().max(LIMITS.argumentBytesMax))
  .min(1)
  .max(LIMITS.commandArgumentsMax)
  .describe('The program and its arguments, each by itself. No shell reads them.')
const Command = z
  .string()
  .min(1)
  .max(LIMITS.commandCharsMax)
  .describe('In place of argv: the command as one text. It is split into words; what only a shell could run is asked about each time.')
const Cwd = z.string().min(1).max(4_096).describe('The folder to run in, in /workspace or relative to it. Default: /workspace.')

const aWish = { argv: Argv.exactOptional(), command: Command.exactOptional(), cwd: Cwd.exactOptional() }
const isOneWish = ({ argv, command }: { readonly argv?: unknown; readonly command?: unknown }): boolean =>
  (argv === undefined) !== (command === undefined)
const ONE_WISH = 'one of argv and command'

const Template = z.string().max(LIMITS.secretTemplateCharsMax)
const VariableName = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/

const READS = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false }
const ASKS = { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false }
const ACTS = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true }

const LOOKS = {
  bodyBytesMax: LIMITS.agentSmallBodyBytesMax,
  callsPerMinuteMax: LIMITS.lookCallsPerMinuteMax,
  burstCallsMax: LIMITS.lookCallsBurstMax,
}
const BEGINS = {
  bodyBytesMax: LIMITS.agentBodyBytesMax,
  callsPerMinuteMax: LIMITS.beginCallsPerMinuteMax,
  burstCallsMax: LIMITS.beginCallsBurstMax,
}
const PROPOSES = {
  bodyBytesMax: LIMITS.agentBodyBytesMax,
  callsPerMinuteMax: LIMITS.proposalsPerMinuteMax,
  burstCallsMax: LIMITS.proposalsPerMinuteMax,
}

/** Of a request that goes on, in its description. A way of calling that waits by itself says its own in place of this. */
export const LATER =
  'Answers at once with an id and a status; call request.await with the id until the status is neither pending nor running.'
const Decided = {
  action: z.enum(['allow', 'ask', 'deny', 'disabled']).describe('What would become of it. "ask": a person is asked first.'),
  why: z.string(),
  rule: z.string().exactOptional().describe('The rule of the policy that decides.'),
  risk: z.string().exactOptional().describe('How dangerous the command looks: safe, caution or dangerous.'),
  near_miss: z.string().exactOptional().describe('What would have to differ for a rule to allow the command.'),
}

const Content = z.string().max(LIMITS.proposalBytesMax).describe('The whole text that the file is to have.')
const proposal = <K extends 'tool' | 'skill' | 'config_change'>(of: K, what: string, name: string) =>
  ({
    tool: `propose_${of}`,
    title: `propose.${of}`,
    description: `Proposes ${what}. A person sees the difference and decides; nothing is done by itself. ${LATER}`,
    verb: 'POST',
    path: `/v1/propose/${of}`,
    status: 202,
    params: z.strictObject({ name: z.string().max(64).describe(name), content: Content, reason: Reason }),
    result: RequestView,
    annotations: ASKS,
    ...PROPOSES,
  }) as const

/** What an agent may ask for, by method. One table for every way of asking. */
export const AGENT_METHODS = {
  'secret.request': {
    tool: 'secret_request',
    title: 'secret.request',
    description: `Asks for the use of a secret by its name. You never see its value: once a person agreed, the request has a handle, which secret.use_in writes the value in place of. ${LATER}`,
    verb: 'POST',
    path: '/v1/secrets/request',
    status: 202,
    params: z.strictObject({
      name: z.string().min(1).max(256).describe('The name of the secret, such as POSTGRES_PROD_PASSWORD.'),
      scope: z
        .enum(['single-command', 'session', 'persisted'])
        .describe('For one command, for this session, or for sessions to come too, which changes the policy of the workspace.'),
      reason: Reason,
    }),
    result: RequestView,
    annotations: ASKS,
    ...BEGINS,
    bodyBytesMax: LIMITS.agentSmallBodyBytesMax,
  },
  'secret.use_in': {
    tool: 'secret_use_in',
    title: 'secret.use_in',
    description: `Runs one command that needs secrets, in a container of its own that you cannot look into: the same image, no access but by the gate, /output for files. Write \${HANDLE} with a handle of secret.request where a value belongs, in env or stdin, never in argv. What it prints comes back without the values, and files of /output appear in /sallyport/output. ${LATER}`,
    verb: 'POST',
    path: '/v1/secrets/use',
    status: 202,
    params: z.strictObject({
      argv: Argv,
      env: z
        .record(z.string(), Template)
        .refine((env) => Object.keys(env).length <= LIMITS.secretUseVariablesMax, `more than ${LIMITS.secretUseVariablesMax} variables`)
        .refine((env) => Object.keys(env).every((name) => VariableName.test(name)), 'a name is not one of an environment variable')
        .default({})
        .describe('Variables of its environment. In a value, ${sph_…} is replaced: {"PGPASSWORD": "${sph_…}"}.'),
      stdin: Template.exactOptional().describe('What it reads from its standard input. ${sph_…} is replaced in it.'),
      reason: Reason,
      workspace: z.enum(['none', 'ro']).default('none').describe('Whether /workspace is there for it to read.'),
      cwd: Cwd.exactOptional(),
    }),
    result: RequestView,
    annotations: ACTS,
    ...BEGINS,
  },
  'host.run': {
    tool: 'host_run',
    title: 'host.run',
    description: `Runs a command on the host, outside of your container, as the operator: for what only works there. The policy allows it, asks a person first, or denies it; host.run_capability tells beforehand. ${LATER}`,
    verb: 'POST',
    path: '/v1/host/run',
    status: 202,
    params: z.strictObject({ ...aWish, reason: Reason }).refine(isOneWish, ONE_WISH),
    result: RequestView,
    annotations: ACTS,
    ...BEGINS,
  },
  'host.run_capability': {
    tool: 'host_run_capability',
    title: 'host.run_capability',
    description: 'Whether host.run would run a command, ask a person about it or refuse it, and why. Asks nobody and runs nothing.',
    verb: 'POST',
    path: '/v1/host/run_capability',
    status: 200,
    params: z.strictObject(aWish).refine(isOneWish, ONE_WISH),
    result: z.strictObject(Decided),
    annotations: READS,
    ...BEGINS,
  },
  'request.await': {
    tool: 'request_await',
    title: 'request.await',
    description: `What became of a request: at once when it has ended, else after so many seconds. Call it again while the status is pending (a person is asked) or running.`,
    verb: 'GET',
    path: '/v1/requests/{id}',
    status: 200,
    params: z.strictObject({ id: Id, wait: WaitSeconds }),
    result: RequestView,
    annotations: READS,
    ...LOOKS,
  },
  'request.output': {
    tool: 'request_output',
    title: 'request.output',
    description:
      'What a running request prints, piece by piece: those behind the first `after`, once there are some. Go on with `next` until `isEnded`.',
    verb: 'GET',
    path: '/v1/requests/{id}/output',
    status: 200,
    isStream: true,
    params: z.strictObject({
      id: Id,
      after: z.int().min(0).default(0).describe('Pieces that you have already.'),
      wait: WaitSeconds,
    }),
    result: OutputView,
    annotations: READS,
    ...LOOKS,
  },
  'request.cancel': {
    tool: 'request_cancel',
    title: 'request.cancel',
    description:
      'Ends a request: a question is withdrawn, a command and all that it started is killed. Answers with the request as it ended.',
    verb: 'DELETE',
    path: '/v1/requests/{id}',
    status: 200,
    params: z.strictObject({ id: Id }),
    result: RequestView,
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    ...LOOKS,
  },
  'policy.explain': {
    tool: 'policy_explain',
    title: 'policy.explain',
    description:
      'Whether a request to a URL, a host command or the use of a secret would pass, by which rule, and how to ask for it. Asks nobody.',
    verb: 'GET',
    path: '/v1/policy/explain',
    status: 200,
    params: z
      .strictObject({
        url: z.string().max(8_192).exactOptional().describe('A URL that you want to reach.'),
        method: z.string().max(32).exactOptional().describe('The HTTP method for it. Default: GET.'),
        command: Command.exactOptional().describe('A command for the host.'),
        secret: z.string().min(1).max(256).exactOptional().describe('The name of a secret.'),
      })
      .refine(
        ({ url, command, secret }) => [url, command, secret].filter((one) => one !== undefined).length === 1,
        'one of url, command and secret',
      )
      .refine(({ url, method }) => url !== undefined || method === undefined, 'method goes with url'),
    result: z.strictObject({
      ...Decided,
      code: z.string().exactOptional().describe('The code of the refusal.'),
      hint: z.string().exactOptional(),
      credential: z.string().exactOptional().describe('The credential that the gate writes into the request: send none of your own.'),
      how_to_ask: z.string().exactOptional(),
    }),
    annotations: READS,
    ...LOOKS,
  },
  'propose.policy': {
    tool: 'propose_policy',
    title: 'propose.policy',
    description: `Proposes a policy for this workspace: the whole text of the file, as YAML. A person sees the difference and decides; nothing is done by itself. ${LATER}`,
    verb: 'POST',
    path: '/v1/propose/policy',
    status: 202,
    params: z.strictObject({ content: Content, reason: Reason }),
    result: RequestView,
    annotations: ASKS,
    ...PROPOSES,
  },
  'propose.tool': proposal('tool', 'a tool for sessions to come', 'The name of the tool.'),
  'propose.skill': proposal('skill', 'a skill for sessions to come', 'The name of the skill.'),
  'propose.config_change': proposal('config_change', 'a change of a setting', 'The name of the file.'),
} as const satisfies { readonly [M in AgentMethod]: AgentMethodEntry & { readonly title: M } }

/** What a method takes, once it is checked: what was left out has its default. */
export type AgentParams<M extends AgentMethod> = z.infer<(typeof AGENT_METHODS)[M]['params']>
export type AgentResult<M extends AgentMethod> = Readonly<z.infer<(typeof AGENT_METHODS)[M]['result']>>
