import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createSecretStories, type SecretStories } from '../../src/controller/handles/handles.ts'
import { openProviders } from '../../src/controller/providers/providers.ts'
import type { RequestPlace } from '../../src/controller/requests/requests.ts'
import { workspacePolicyDir } from '../../src/controller/sessions/session-layers.ts'
import type { Sibling, SiblingEnd, SiblingWish } from '../../src/controller/sessions/sessions.ts'
import { SallyportError } from '../../src/kernel/errors.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { loadPolicy } from '../../src/policy/policy.ts'
import type { RequestView } from '../../src/wire/agent-requests.ts'
import type { DeskOptions } from './approvals.ts'
import { requestsSetting } from './requests.ts'

export const PASSWORD = 'p4ss-w0rd/of+the=database'

export type SecretsOptions = DeskOptions & {
  /** By key: a value that is there, or for whom else it is. */
  readonly vault?: Record<string, string>
  readonly kept?: readonly string[]
  readonly audit?: (event: { readonly event: string }) => Promise<void>
  /** Told as a sibling is about to start; what it throws keeps it from starting. */
  readonly starting?: (wish: SiblingWish) => void | Promise<void>
}

/**
 * Secrets by handle with real approvals, proposals, files and policy. In the place of containers: processes of this machine, with the wish's
 * environment and nothing else. `/output` and the copies lie in folders that stand in their arguments.
 */
export async function secretsSetting(policy: object = {}, options: SecretsOptions = {}) {
  const vault = new Map(Object.entries(options.vault ?? { POSTGRES_PROD_PASSWORD: PASSWORD }))
  const kept = new Set(options.kept ?? [])
  const wishes: SiblingWish[] = []
  const reads: string[] = []
  const gone: string[] = []
  let stories: SecretStories | undefined
  const made = (): SecretStories => {
    if (stories === undefined) throw new Error('too early')
    return stories
  }
  const setting = await requestsSetting(policy, {
    ...options,
    secretRequest: (...given) => made().request(...given),
    secretUse: (...given) => made().use(...given),
    onSessionEnd: (session) => made().endSession(session),
  })
  const own = join(workspacePolicyDir(setting.home, setting.workspace), 'policy.yaml')
  const revoked = new Set<string>()
  const place = (session: string): RequestPlace => {
    if (revoked.has(session)) throw new SallyportError('session_revoked', `the leases of session ${session} were revoked`)
    return {
      asker: { session, sessionName: session, workspace: setting.workspace, agent: 'claude' },
      policy: () =>
        loadPolicy(
          [
            { file: 'operator.yaml', text: JSON.stringify({ version: 1, ...setting.state.policy }) },
            ...(existsSync(own) ? [{ file: own, text: readFileSync(own, 'utf8') }] : []),
          ],
          { policyDirs: [] },
        ),
      surroundings: { home: setting.home, workspace: setting.workspace, operatorPorts: [] },
      secrets: () => [],
      others: () => [],
      refuseSuspect: () => Promise.resolve(),
    }
  }
  const local = {
    get: async (key: string) => {
      reads.push(key)
      const value = vault.get(key)
      if (value === undefined) throw new SallyportError('secret_missing', `the vault has no ${key}`)
      return new Secret(key, value)
    },
  }
  stories = createSecretStories({
    home: setting.home,
    approvals: setting.desk.approvals,
    proposals: setting.proposals,
    providers: openProviders({ env: {}, vault: local }),
    vault: { has: async (key) => (kept.has(key) ? 'kept' : vault.has(key) ? 'there' : 'absent') },
    siblings: {
      siblingImage: async () => ({
        id: `sha256:${'1'.repeat(64)}`,
        path: '/usr/bin:/bin',
        user: { uid: 10_001, gid: 10_001 },
        resolve: async (program) => {
          const found = program.startsWith('/') ? [program] : [`/usr/bin/${program}`, `/bin/${program}`]
          return program.startsWith('/workspace') ? undefined : found.find((path) => existsSync(path))
        },
      }),
      startSibling: async (_session, wish, signal) => {
        await options.starting?.(wish)
        wishes.push(wish)
        return startProcess(wish, setting.root, signal, () => void gone.push(wish.label))
      },
    },
    place,
    audit: async (event) => {
      await options.audit?.(event)
      setting.events.push(event)
    },
    system: setting.desk.clock,
  })
  const begin = (name: string, scope: string, session = 's-1', reason = 'to look at a table'): Promise<RequestView> =>
    setting.call('secret.request', { name, scope, reason }, session) as Promise<RequestView>
  return {
    ...setting,
    vault,
    kept,
    wishes,
    reads,
    gone,
    revoked,
    policyFile: own,
    begin,
    /** Asks, has it allowed, and gives the handle. */
    async handle(name = 'POSTGRES_PROD_PASSWORD', scope = 'session', session = 's-1'): Promise<string> {
      const view = await begin(name, scope, session)
      await setting.yes(await setting.asked())
      const { handle = '', ...ended } = await setting.ended(view, session)
      if (handle === '') throw new Error(JSON.stringify(ended))
      return handle
    },
    use: (wish: object, session = 's-1'): Promise<RequestView> =>
      setting.call('secret.use_in', { reason: 'to see', ...wish }, session) as Promise<RequestView>,
    /** Begins a use, has it allowed, and gives its end. */
    async used(wish: object, session = 's-1'): Promise<RequestView> {
      const view = (await setting.call('secret.use_in', { reason: 'to see', ...wish }, session)) as RequestView
      await setting.yes(await setting.asked())
      return setting.ended(view, session)
    },
    output: (view: RequestView, name: string, session = 's-1'): Promise<Buffer> =>
      readFile(join(setting.home, 'sessions', session, 'output', view.id, name)),
  }
}

async function startProcess(wish: SiblingWish, root: string, signal: AbortSignal, onGone: () => void): Promise<Sibling> {
  const pinned = join(root, `pinned-${wish.label}`)
  for (const { target, content, executable } of wish.pinned) {
    await mkdir(dirname(join(pinned, target)), { recursive: true })
    await writeFile(join(pinned, target), content)
    await chmod(join(pinned, target), executable ? 0o555 : 0o444)
  }
  const argv = wish.argv.map((token) =>
    token.replaceAll('/sallyport/pinned', join(pinned, '/sallyport/pinned')).replaceAll('/output', wish.output?.folder ?? '/output'),
  )
  const values = Object.fromEntries(Object.entries(wish.values).map(([name, value]) => [name, value.reveal()]))
  const child = spawn(argv[0] ?? '', argv.slice(1), {
    env: { PATH: '/usr/bin:/bin', ...wish.environment, ...values },
    detached: true,
    stdio: 'pipe',
  })
  const kill = (): void => {
    try {
      process.kill(-(child.pid ?? 0), 'SIGKILL')
    } catch {
      // It has ended.
    }
  }
  signal.addEventListener('abort', kill, { once: true })
  child.stdin.on('error', () => undefined)
  child.stdin.end(typeof wish.stdin === 'string' ? '' : wish.stdin.reveal())
  const exited: Promise<SiblingEnd> = once(child, 'exit').then(([code]) => ({
    exitCode: typeof code === 'number' ? code : 137,
    outOfMemory: false,
    outputExceeded: false,
  }))
  let isGone = false
  return {
    container: wish.label,
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    exited,
    async [Symbol.asyncDispose]() {
      if (isGone) return
      isGone = true
      kill()
      await exited
      onGone()
    },
  }
}
