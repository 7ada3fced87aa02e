import { SallyportError } from '../kernel/errors.ts'
import type { Secret } from '../kernel/secret.ts'
import { system } from '../kernel/system.ts'
import { Scope, type Question, type Tier } from '../wire/question.ts'
import { showInbox } from './approve-terminal.ts'
import { proofFor } from './approve-view.ts'
import { refuseAgentsTerminal } from './attached-terminals.ts'
import { homeOf, parseFlags, type Command, type Io } from './command.ts'
import { daemonClient, type DaemonClient } from './daemon-client.ts'
import { parseExpiry } from './expiry.ts'
import { wordingFor } from './question-wording.ts'
import { askPassphrase, readPassword } from './secret-input.ts'
import { sendNamedAnswer, type AnswerToSend } from './send-answer.ts'

const VIEW = 'sallyport approve'
const APPROVE = 'sallyport approve ID [--scope once|session|remember] [--digest D] [--rule R] [--expires WHEN] [--password-stdin]'
const DENY = 'sallyport deny ID [--message M] [--scope once|session] [--digest D]'

export const approveCommand: Command = {
  summary: 'answer what agents ask, on the terminal or in scripts',
  usage: `usage: ${VIEW}
       ${APPROVE}

Without an ID: the inbox on the whole terminal, with what waits, what was, and the details. Keys: j k move, enter looks, a allows once, s for
the session, r remembers it as a rule, d denies with a reason, tab shows what was, ? all keys, q leaves. A yes is taken when all of a
question was on the screen, and not in the first moment after. The terminal must not be one that a session is attached to.

With an ID: allows that question. The digest names what is allowed; it is in "sallyport pending --json".

  --scope once|session|remember   default once; remember needs --rule
  --digest D                      allow it only if it is the question with this digest
  --rule R                        the rule that is remembered, as "sallyport pending --json" shows it at "remember"
  --expires WHEN                  when a remembered rule ends: 90m, 12h, 30d, or a date as 2031-05-01 or 2031-05-01T12:00Z
  --password-stdin                the operator's password comes from stdin, for a question of T1; else it is asked for, hidden

What a question of T2 needs, the operating system asks for by itself.

Exit code: 0 allowed, or the view was left; 1 not allowed, with the reason; 2 usage.
`,
  async run(argv, io) {
    const { values, positionals } = parseFlags(
      argv,
      {
        scope: { type: 'string', default: 'once' },
        digest: { type: 'string' },
        rule: { type: 'string' },
        expires: { type: 'string' },
        'password-stdin': { type: 'boolean', default: false },
      },
      { min: 0, max: 1, usage: APPROVE },
    )
    const [id] = positionals
    const daemon = daemonClient(homeOf(io.env), `terminal ${process.pid}`)
    if (id === undefined) {
      if (argv.length > 0) throw new SallyportError('usage', 'ID is missing', { hint: `usage: ${APPROVE}` })
      refuseAgentsTerminal(io.env)
      await showInbox({ daemon, wording: wordingFor(io.env), refuseUnsafe: () => refuseAgentsTerminal(io.env) })
      return 0
    }
    const scope = scopeOf(values.scope, Scope.options, APPROVE)
    const question = await questionOf(daemon, id, values.digest)
    const rule = ruleOf(question, scope, values)
    const expiresAt = values.expires === undefined ? undefined : parseExpiry(values.expires, system.now())
    const { proof, password } = await proofOf(question, daemon, values['password-stdin'], io)
    const answer: AnswerToSend = {
      id,
      digest: question.digest,
      decision: 'allow',
      scope,
      proof,
      ...(rule !== undefined && { rule }),
      ...(expiresAt !== undefined && { expiresAt }),
    }
    await sendNamedAnswer(daemon, answer, question, password)
    io.out(`${question.id}: allowed${scope === 'once' ? '' : ` (${scope})`}: ${wordingFor(io.env).summary(question)}\n`)
    return 0
  },
}

export const denyCommand: Command = {
  summary: 'say no to what an agent asks',
  usage: `usage: ${DENY}

Denies a question that waits. Nobody's proof is needed for a no, and nobody who looks at the question holds it up.

  --message M             told to the agent
  --scope once|session    default once; session: equal questions of this session too
  --digest D              deny it only if it is the question with this digest

Exit code: 0 denied; 1 not denied, as it is settled; 2 usage.
`,
  async run(argv, io) {
    const { values, positionals } = parseFlags(
      argv,
      { message: { type: 'string' }, scope: { type: 'string', default: 'once' }, digest: { type: 'string' } },
      { min: 1, max: 1, names: ['ID'], usage: DENY },
    )
    const [id = ''] = positionals
    const scope = scopeOf(values.scope, ['once', 'session'], DENY)
    const daemon = daemonClient(homeOf(io.env), `terminal ${process.pid}`)
    const question = await questionOf(daemon, id, values.digest)
    const { message } = values
    const answer: AnswerToSend = {
      id,
      digest: question.digest,
      decision: 'deny',
      scope,
      proof: 'key',
      ...(message !== undefined && { message }),
    }
    await sendNamedAnswer(daemon, answer, question)
    io.out(`${question.id}: denied: ${wordingFor(io.env).summary(question)}\n`)
    return 0
  },
}

function scopeOf(text: string, allowed: readonly Scope[], usage: string): Scope {
  const found = allowed.find((scope) => scope === text)
  if (found !== undefined) return found
  throw new SallyportError('usage', `--scope "${text}" is none of ${allowed.join(', ')}`, { hint: `usage: ${usage}` })
}

async function questionOf(daemon: DaemonClient, id: string, digest: string | undefined): Promise<Question> {
  const question = (await daemon.request('GET', `/v1/questions/${encodeURIComponent(id)}`)) as Question
  if (digest === undefined || digest === question.digest) return question
  throw new SallyportError('digest_mismatch', `${question.id} has the digest ${question.digest}`, {
    hint: 'it is another question than the one that was meant: look at it with sallyport pending --json',
  })
}

/** A rule is remembered only by who has seen it. */
function ruleOf(
  question: Question,
  scope: Scope,
  { rule, expires }: { rule?: string | undefined; expires?: string | undefined },
): string | undefined {
  if (scope !== 'remember') {
    if (rule === undefined && expires === undefined) return undefined
    throw new SallyportError('usage', '--rule and --expires go with --scope remember', { hint: `usage: ${APPROVE}` })
  }
  if (question.remember === undefined) throw new SallyportError('answer_invalid', `${question.id} cannot be remembered`)
  if (rule !== undefined) return rule
  throw new SallyportError('usage', `--scope remember needs the rule that it becomes: ${question.remember.rule}`, {
    hint: 'look at it, and name it with --rule',
  })
}

async function proofOf(
  { id, tier }: Question,
  daemon: DaemonClient,
  fromStdin: boolean,
  io: Io,
): Promise<{ readonly proof: AnswerToSend['proof']; readonly password?: Secret }> {
  const { available } = (await daemon.request('GET', '/v1/approver')) as { readonly available: readonly Tier[] }
  const proof = fromStdin && tier !== 'T2' && tier !== 'T3' ? 'password' : proofFor(tier, available)
  if (proof === undefined)
    throw new SallyportError('presence_required', `${id} needs ${tier}, and that cannot be proven here`, {
      hint: tier === 'T1' ? 'set a password: sallyport approver password' : 'see sallyport doctor',
    })
  if (proof !== 'password') return { proof }
  if (fromStdin) return { proof, password: await readPassword() }
  refuseAgentsTerminal(io.env)
  return { proof, password: await askPassphrase(`Password of the operator, to allow ${id}`) }
}
