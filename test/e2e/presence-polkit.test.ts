import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { identityOf } from '../../src/controller/presence/presence.ts'
import { polkitPrompt } from '../../src/controller/presence/polkit-prompt.ts'
import { LOGIN_PASSWORD, openPolkit, OPERATOR, OTHER, type Polkit } from '../support/polkit.ts'
import { eventually } from '../support/eventually.ts'

const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex')
const DIGEST = digestOf('what will happen')

function withPolkit(title: string, body: (polkit: Polkit) => Promise<void>, options: Parameters<typeof openPolkit>[0] = {}): void {
  test(title, async (t) => {
    const polkit = await openPolkit(options)
    if ('missing' in polkit) return t.skip(polkit.missing)
    await using held = polkit
    await body(held)
  })
}

const proofOf = ({ pid, startTime }: { pid: number; startTime: string }) => ({ kind: 'system', pid, startTime }) as const

withPolkit(
  'I49 polkit asks for the login password of the user, shows which question it is, and the right one proves T2',
  async (polkit) => {
    await using daemon = await polkit.daemon()
    assert.deepEqual(daemon.available, ['T0', 'T2'])
    const screen = await polkit.agent(daemon)
    const proven = daemon.prove(proofOf(daemon), DIGEST)
    await screen.sees(`Sallyport: confirm the answer to an agent (allow once ${DIGEST.slice(0, 16)})`)
    await screen.sees('Password: ')
    screen.write(`${LOGIN_PASSWORD}\r`)
    const { evidence } = await proven
    assert.deepEqual([evidence?.tier, evidence?.means, evidence?.digest], ['T2', 'polkit', DIGEST])
    assert.ok(!screen.printed().includes(LOGIN_PASSWORD))
  },
)

withPolkit(
  'I49 one answer at the prompt of polkit proves one question: the next is asked anew, and a wrong password proves nothing',
  async (polkit) => {
    await using daemon = await polkit.daemon()
    const screen = await polkit.agent(daemon)
    const first = daemon.prove(proofOf(daemon), DIGEST)
    await screen.sees('Password: ')
    screen.write(`${LOGIN_PASSWORD}\r`)
    assert.ok((await first).evidence)
    const second = daemon.prove(proofOf(daemon), digestOf('something else'))
    await screen.sees(digestOf('something else').slice(0, 16))
    await screen.sees('Password: ')
    screen.write('not the password\r')
    const { code, message } = await second
    assert.deepEqual([code, message], ['presence_failed', 'the operating system says that it was not its user'])
  },
)

withPolkit('I49 where nothing shows the prompt of polkit nothing is proven', async (polkit) => {
  await using daemon = await polkit.daemon()
  const { code, message, hint } = await daemon.prove(proofOf(daemon), DIGEST)
  assert.deepEqual([code, message], ['presence_failed', 'nothing here can show the prompt of the operating system'])
  assert.match(hint ?? '', /pkttyagent/)
})

withPolkit('I49 an answer that is broken off takes the prompt away and proves nothing', async (polkit) => {
  await using daemon = await polkit.daemon()
  const screen = await polkit.agent(daemon)
  const proven = daemon.prove(proofOf(daemon), DIGEST)
  await screen.sees('Password: ')
  daemon.breakOff()
  assert.equal((await proven).code, 'presence_failed')
  await eventually(async () => assert.doesNotMatch(await commandsOf(OPERATOR.uid), /pkcheck/))
})

withPolkit(
  'I49 a rule of the machine that allows it without asking proves nothing',
  async (polkit) => {
    await using daemon = await polkit.daemon()
    const { code, message } = await daemon.prove(proofOf(daemon), DIGEST)
    assert.deepEqual([code, message], ['presence_failed', 'polkit allows org.sallyport.approve without asking'])
  },
  { rule: 'polkit.addRule(function (action) { if (action.id == "org.sallyport.approve") return polkit.Result.YES })' },
)

withPolkit(
  'I49 a rule of the machine that denies it is no proof either',
  async (polkit) => {
    await using daemon = await polkit.daemon()
    const { code, message } = await daemon.prove(proofOf(daemon), DIGEST)
    assert.deepEqual([code, message], ['presence_failed', 'polkit does not ask about org.sallyport.approve (its command failed: exit 1)'])
  },
  { rule: 'polkit.addRule(function (action) { if (action.id == "org.sallyport.approve") return polkit.Result.NO })' },
)

withPolkit(
  'I49 a user whom the installed policy does not name is told so, and proves nothing',
  async (polkit) => {
    await using daemon = await polkit.daemon()
    const { code, hint } = await daemon.prove(proofOf(daemon), DIGEST)
    assert.equal(code, 'presence_failed')
    assert.match(hint ?? '', /is this user named/)
  },
  { owner: OTHER.name },
)

withPolkit('I49 polkit is not asked about a process of another user, of another time, or in a container', async (polkit) => {
  await using daemon = await polkit.daemon()
  const screen = await polkit.agent(daemon)
  const others = await polkit.start(OTHER, ['sleep', '60'])
  const inside = await inContainer(OPERATOR.uid)
  const refusals = [
    { proof: proofOf(identityOf(others.pid ?? 0)), why: /is of user 23457/ },
    { proof: proofOf(identityOf(inside.pid)), why: /runs in a container|cannot be looked at/ },
    { proof: proofOf({ pid: daemon.pid, startTime: '1' }), why: /began at another time/ },
    { proof: proofOf({ pid: 2 ** 22 + 1, startTime: '1' }), why: /is gone/ },
  ]
  for (const { proof, why } of refusals) {
    const { code, message } = await daemon.prove(proof, DIGEST)
    assert.equal(code, 'presence_failed')
    assert.match(message ?? '', why)
  }
  inside.end()
  assert.doesNotMatch(screen.printed(), /Sallyport|Password/)
})

test('I49 root, whom polkit asks for nothing, has no proof of T2', async () => {
  const prompt = polkitPrompt(0)
  assert.match(prompt.problem() ?? '', /asks root/)
  const of = { digest: DIGEST, decision: 'allow', scope: 'once' } as const
  await assert.rejects(prompt.confirm(identityOf(process.pid), of, AbortSignal.timeout(10_000)), { code: 'presence_failed' })
})

async function commandsOf(uid: number): Promise<string> {
  const child = spawn('ps', ['-u', String(uid), '-o', 'args='], { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()))
  await once(child, 'close')
  return text
}

/** A process of this user in a pid namespace of its own, as an agent's in a container is. */
async function inContainer(uid: number): Promise<{ readonly pid: number; end(): void }> {
  const asUser = ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups']
  const child = spawn('unshare', ['--pid', '--fork', ...asUser, 'sleep', '60'], { stdio: 'ignore' })
  await once(child, 'spawn')
  const pid = await eventually(async () => {
    const [first = ''] = (await readFile(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')).split(' ')
    assert.match(await readFile(`/proc/${first}/cmdline`, 'utf8'), /^sleep/)
    return Number(first)
  })
  return { pid, end: () => void process.kill(pid, 'SIGKILL') }
}
