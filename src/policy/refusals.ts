import type { Refusal } from '../kernel/errors.ts'
import type { Hostname } from '../kernel/hostname.ts'
import { shown } from '../kernel/shown.ts'
import type { Route } from './model.ts'
import { canonicalPath } from './paths.ts'

/**
 * @param ports on which rules name this host
 * @param tcp the id of a rule that lets tcp connections to this host and port through
 */
export function notAllowed(host: Hostname, port: number, ports: readonly number[], tcp: string | undefined): Refusal {
  if (tcp !== undefined) {
    const message = `no rule allows HTTP to ${host} on port ${port}`
    return { code: 'host_not_allowed', message, hint: `rule "${tcp}" is about tcp connections there: open one with CONNECT or SOCKS` }
  }
  return ports.length === 0
    ? { code: 'host_not_allowed', message: `no rule allows ${host}`, hint: 'the operator can add a rule for this host' }
    : {
        code: 'host_not_allowed',
        message: `no rule allows ${host} on port ${port}`,
        hint: `rules name port ${ports.slice(0, 8).join(', ')}`,
      }
}

export function noneOfHarness(host: Hostname): Refusal {
  return {
    code: 'host_not_allowed',
    message: `network.mode is none, and no rule of the harness allows ${host}`,
    hint: 'the operator can set network.mode: restricted',
  }
}

export function nothingAllows(host: Hostname, method: string, path: string): Refusal {
  return {
    code: 'denied_by_rule',
    message: `no rule for ${host} allows ${shown(method)} ${shown(path)}`,
    hint: 'the operator can add the method and path to a rule for this host',
  }
}

export function notCanonical(host: Hostname, path: string, problem: string): Refusal {
  const right = canonicalPath(path)
  return {
    code: 'path_not_canonical',
    message: `rules look at paths of ${host}, and "${shown(path)}" could be read in two ways: ${problem}`,
    ...(right !== undefined && { hint: `write "${shown(right)}"` }),
  }
}

export function outsideRoute({ name, rule }: Route): Refusal {
  return { code: 'denied_by_rule', message: `the request is not below the upstream of route "${name}"`, rule: rule.id }
}
