import { join } from 'node:path'
import type { Log } from '../kernel/log.ts'
import type { Secret } from '../kernel/secret.ts'
import type { Approver, Late } from './approver.ts'
import type { ControllerConfig, Host } from './controller.ts'
import { openNotify } from './notify/notify.ts'
import { openSurfaces, type Surfaces, type SurfacesParts } from './operator/surfaces.ts'
import type { Planning } from './planning.ts'
import { openPolicyFiles } from './policy-files/policy-files.ts'

type FacesParts = Pick<ControllerConfig, 'packageRoot' | 'env'> & {
  readonly host: Host
  readonly approver: Approver
  readonly planning: Planning
  readonly operatorSecrets: SurfacesParts['operatorSecrets']
  /** Of what tells somebody elsewhere that a question waits. */
  readonly notifySecret: (key: string) => Promise<Secret>
  readonly redact: (session: string, text: string) => string
  /** Is told where the page is. */
  readonly late: Late
  readonly signal: AbortSignal
  readonly log: Log
}

/**
 * What the controller shows its operator: the socket and the page, with the policies that these change, and notices elsewhere.
 * @throws listen_failed, config_invalid
 */
export async function openFaces(
  socket: string,
  page: ControllerConfig['web'],
  parts: FacesParts,
): Promise<AsyncDisposable & Pick<Surfaces, 'socket'> & { readonly web?: string }> {
  const { host, approver, planning, packageRoot, env, late, signal, log } = parts
  const { home, sessions, state, audit, system } = host
  const { approvals, proposals } = approver
  await using open = new AsyncDisposableStack()
  const policies = open.use(
    await openPolicyFiles({
      home,
      packageRoot,
      state,
      sessions,
      planning,
      approvals,
      changes: proposals.changes,
      operatorPorts: () => (late.web === undefined ? [] : [late.web.port]),
      audit,
      system,
      log,
    }),
  )
  const surfaces = open.use(
    await openSurfaces(socket, page, {
      ...host,
      ...approver,
      operatorSecrets: parts.operatorSecrets,
      place: { home, packageRoot, environment: env },
      policies,
      pageFolder: join(packageRoot, 'dist', 'page'),
      signal,
      log,
    }),
  )
  const { web } = surfaces
  late.web = web
  open.use(
    await openNotify({
      home,
      approvals,
      attest: (means, of) => approver.presence.attest(means, of),
      resolveSecret: parts.notifySecret,
      redact: parts.redact,
      ...(web && { link: web.url }),
      environment: env,
      system,
      log,
    }),
  )
  const running = open.move()
  return { socket: surfaces.socket, ...(web && { web: web.url }), [Symbol.asyncDispose]: () => running.disposeAsync() }
}
