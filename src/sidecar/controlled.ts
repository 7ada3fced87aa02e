import { createHash, timingSafeEqual } from 'node:crypto'
import type { Audit, Outgoing } from '../audit/audit.ts'
import { createHeldSecrets, type HeldSecrets } from '../credential/credential.ts'
import { codeOf, type Refusal } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import type { Log } from '../kernel/log.ts'
import type { System } from '../kernel/system.ts'
import { authorityFrom, type Authority } from '../pki/pki.ts'
import { FROM_SIDECAR, type Secrets, type SideNetwork } from '../wire/control.ts'
import type { AskOperator } from './egress/asking.ts'
import type { CheckLease } from './egress/lease.ts'
import type { Reloading, ReloadParts } from './enforcement.ts'
import type { CallController } from './gateway/gateway.ts'
import type { AskTool } from './gateway/server-channel.ts'
import { openLink, type LinkConfig, type LinkHandlers } from './link.ts'
import type { SideNetworks } from './side-networks.ts'

/** What a gate has from its controller. */
export type Controlled = AsyncDisposable & {
  readonly held: HeldSecrets
  readonly checkLease: CheckLease
  /** Undefined where the controller has none for it. */
  readonly authority: Authority | undefined
  /** Brings questions of rules that ask to the operator. */
  readonly ask: AskOperator
  readonly callController: CallController
  /** Steps of connections with MCP servers that the controller runs. */
  readonly askTool: AskTool
  /** From here on the controller's word is done. */
  serve(parts: ServeParts): void
}

export type ServeParts = {
  readonly reloading: Reloading
  readonly replaced: ReloadParts & { readonly audit: Audit }
  /** One change of the policy at a time. */
  readonly serially: (run: () => Promise<void>) => Promise<void>
  /** Forgets what was made of secrets. */
  readonly forget: () => void
  readonly outgoing: Outgoing | undefined
  readonly onServerTest: LinkHandlers['onServerTest']
  readonly sideNetworks: Pick<SideNetworks, 'open' | 'change'>
}

/**
 * Waits for the session's secrets. They are in memory only, and taken back when the lease is revoked, or when the controller is gone for
 * longer than it granted.
 * @throws control_unreachable, control_refused, control_version_mismatch, ca_invalid, and why a secret has no value
 */
export async function openControlled(config: LinkConfig, log: Log, system: System): Promise<Controlled> {
  await using parts = new AsyncDisposableStack()
  const link = parts.use(await openLink(config, log, system))
  const { authority: pems, graceMs } = link.welcome
  const authority = pems && authorityFrom(pems, system)
  let inForce: Secrets | undefined = link.takeSecrets()
  const held = createHeldSecrets(inForce.values)
  let leases = hashesOf(inForce)
  const opened = parts.move()
  return {
    held,
    authority,
    checkLease: (token) => {
      const shown = createHash('sha256').update(token).digest()
      // All of them, always: the time says nothing of which.
      return leases.reduce((isKnown, lease) => timingSafeEqual(lease, shown) || isKnown, false)
    },
    async ask({ requestId, lane, network, rule, facts: { scheme, host, port, method, path } }) {
      const known = { ...(network !== undefined && { network }), ...(scheme && { scheme }), ...(path !== undefined && { path }) }
      const subject = { kind: 'domain', rule, lane, host, port, method, ...known }
      return FROM_SIDECAR.ASK.result.parse(
        await link.ask('ASK', { request: requestId, subject }, LIMITS.askExpiryMs + LIMITS.requestAnswerMs),
      )
    },
    callController: (call) => link.ask('AGENT', call, LIMITS.requestWaitMaxMs + LIMITS.requestAnswerMs),
    askTool: (request, timeoutMs) => link.ask('TOOL', request, timeoutMs),
    serve({ reloading, replaced, serially, forget, outgoing, sideNetworks, onServerTest }) {
      // I34
      const end = async (how: 'wipe' | 'revoke', reason: Refusal): Promise<number> => {
        inForce = undefined
        const cut = reloading[how](replaced, reason)
        forget()
        log.warn({ code: reason.code, cut }, 'secrets are taken back')
        await replaced.audit
          .append({ event: 'secrets_ended', code: reason.code, cut })
          .catch((error: unknown) => log.error({ code: codeOf(error) }, 'the end of the secrets could not be audited'))
        return cut
      }
      const handlers = {
        onSecrets: (secrets: Secrets) =>
          serially(async () => {
            if (!isSame(secrets, inForce)) await reloading.replaceSecrets(replaced, secrets)
            inForce = secrets
            leases = hashesOf(secrets)
          }),
        onServerTest,
        onPolicy: () => serially(() => reloading.replacePolicy(replaced)),
        policyDigest: () => reloading.enforcement().policy.digest,
        ways: () => sideNetworks.open,
        onWays: (network: SideNetwork, open: boolean) => sideNetworks.change(network, open),
        onRevoked() {
          leases = []
          return end('revoke', REVOKED)
        },
        onGraceOver: () => void end('wipe', controllerGone(graceMs)),
      }
      link.serve(handlers, outgoing)
    },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  }
}

const REVOKED: Refusal = {
  code: 'session_revoked',
  message: 'the lease of this session was revoked',
  hint: 'the operator starts a new session',
}

function controllerGone(graceMs: number): Refusal {
  return {
    code: 'controller_unavailable',
    message: `the credential of this request is the controller's to give, which has been gone for ${Math.round(graceMs / 1_000)} s`,
    hint: 'the operator starts the daemon again; requests that need no credential pass',
  }
}

function hashesOf({ leases }: Secrets): Buffer[] {
  return leases.map((lease) => Buffer.from(lease, 'hex'))
}

/** After a reconnection the same values come again: nothing is replaced by itself. */
function isSame(a: Secrets, b: Secrets | undefined): boolean {
  if (b === undefined || a.version !== b.version) return false
  const names = Object.keys(a.values)
  return names.length === Object.keys(b.values).length && names.every((name) => a.values[name] === b.values[name])
}
