import { createInterface } from 'node:readline/promises'
import { acceptableOwn } from '../controller/sessions/own-policy.ts'
import { realWorkspace, WORKSPACE_POLICY } from '../controller/sessions/workspace-file.ts'
import { openTrust, type TrustStore } from '../controller/sessions/workspace-trust.ts'
import { SallyportError } from '../kernel/errors.ts'
import { system } from '../kernel/system.ts'
import { visible } from '../kernel/visible.ts'
import { homeOf, parseFlags, type Command, type Io } from './command.ts'
import { openConfigRecord } from './config-record.ts'

const TRUST = 'sallyport trust [--workspace DIR] [--yes --digest HEX]'
const LS = 'sallyport trust ls [--json]'
const RM = 'sallyport trust rm [--workspace DIR]'

const USAGE = `usage: ${TRUST}
       ${LS}
       ${RM}

A workspace may bring a policy of its own, ${WORKSPACE_POLICY}. Its agent can write it, so that it may only deny or ask about what
your own policy allows; with anything else in it no session starts. sallyport trust shows the file and what it would allow, and asks
whether you accept it: then it is a layer like yours, after global and role, before your own for this workspace. What you accept is
this content to the byte: after any change it may only deny and ask again.

sallyport trust ls: the workspaces whose policy you accepted.
sallyport trust rm: takes it back, for sessions that start from now on and for running ones when they next read their policy.

  --workspace DIR  default: the current folder
  --yes            do not ask, for scripts: with --digest
  --digest HEX     SHA-256 of the content that is meant, as sallyport trust shows it; with any other nothing is accepted
  --json           of ls: one JSON document

Exit code: 0 accepted, listed or taken back; 1 the answer was not yes, or there was nothing to take back; 2 usage, or a file that cannot be accepted.
`

/** `sallyport trust`. */
export const trustCommand: Command = {
  summary: 'accept the policy that a workspace brings itself, as it is',
  usage: USAGE,
  async run(argv, io) {
    const [name, ...rest] = argv
    const store = openTrust(homeOf(io.env), system)
    if (name === 'ls') return list(rest, io, store)
    if (name === 'rm') return remove(rest, io, store)
    return trust(argv, io, store)
  },
}

async function trust(argv: readonly string[], io: Io, store: TrustStore): Promise<number> {
  const { values } = parseFlags(
    argv,
    {
      workspace: { type: 'string', default: '.' },
      yes: { type: 'boolean', default: false },
      digest: { type: 'string' },
    },
    { min: 0, max: 0, usage: TRUST },
  )
  if (values.yes !== (values.digest !== undefined))
    throw new SallyportError('usage', `--yes and --digest go together: without a look at the content, it is named by its digest`, {
      hint: `usage: ${TRUST}`,
    })
  const workspace = realWorkspace(values.workspace)
  const { file, text, digest, allows } = acceptableOwn(workspace, values.digest)
  if (await store.isTrusted(workspace, text)) return say(io, `${visible(file)}: accepted already, as it is (${digest})\n`)
  if (values.digest === undefined) {
    io.out(
      describe(
        file,
        text,
        digest,
        allows.map(({ line, message }) => `  line ${line}: ${message}`),
      ),
    )
    if (!(await isAnsweredYes('Accept exactly this content? Type yes: '))) {
      io.out('not accepted\n')
      return 1
    }
  }
  await using record = await openConfigRecord(io)
  await store.add(workspace, digest)
  await record.add([{ of: 'trust', what: workspace, did: 'accepted', digest, by: 'sallyport trust' }])
  return say(io, `${visible(file)}: accepted as it is (${digest})\n`)
}

function describe(file: string, text: string, digest: string, allows: readonly string[]): string {
  const lines = text.replace(/\n$/, '').split('\n')
  const width = String(lines.length).length
  return visible(
    [
      `file    ${file}`,
      `sha256  ${digest}`,
      '',
      ...lines.map((line, index) => `${String(index + 1).padStart(width)}  ${line}`),
      '',
      ...(allows.length === 0
        ? ['It only denies and asks: that holds without being accepted.']
        : ['Besides what it denies or asks about, it would say:', ...allows]),
      '',
      '',
    ].join('\n'),
  )
}

/** Only of a person at a terminal: what is piped in may be what the file's author wrote. */
async function isAnsweredYes(question: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stdout.isTTY)
    throw new SallyportError('usage', 'there is no terminal to ask at', {
      hint: 'run it in a terminal, or name the content in a script: sallyport trust --yes --digest HEX',
    })
  const lines = createInterface({ input: process.stdin, output: process.stdout })
  try {
    const closed = new Promise<string>((resolve) => lines.once('close', () => resolve('')))
    return (await Promise.race([lines.question(question), closed])).trim() === 'yes'
  } finally {
    lines.close()
  }
}

async function list(argv: readonly string[], io: Io, store: TrustStore): Promise<number> {
  const { values } = parseFlags(argv, { json: { type: 'boolean' } }, { min: 0, max: 0, usage: LS })
  const found = await store.list()
  if (values.json === true) return say(io, `${JSON.stringify(found, null, 2)}\n`)
  if (found.length === 0) return say(io, "no workspace's own policy is accepted\n")
  return say(
    io,
    found.map(({ workspace, digest, since }) => `${digest}  ${new Date(since).toISOString()}  ${visible(workspace)}\n`).join(''),
  )
}

async function remove(argv: readonly string[], io: Io, store: TrustStore): Promise<number> {
  const { values } = parseFlags(argv, { workspace: { type: 'string', default: '.' } }, { min: 0, max: 0, usage: RM })
  // A workspace that is gone can still be taken back, by the path that ls shows.
  const workspace = realOrAsGiven(values.workspace)
  await using record = await openConfigRecord(io)
  const isRemoved = await store.remove(workspace)
  if (isRemoved) await record.add([{ of: 'trust', what: workspace, did: 'withdrawn', by: 'sallyport trust rm' }])
  io.out(`${visible(workspace)}: ${isRemoved ? 'no longer accepted' : 'nothing was accepted'}\n`)
  return isRemoved ? 0 : 1
}

function realOrAsGiven(workspace: string): string {
  try {
    return realWorkspace(workspace)
  } catch {
    return workspace
  }
}

function say(io: Io, text: string): number {
  io.out(text)
  return 0
}
