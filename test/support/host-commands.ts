import { describeCommand, type CommandWish, type Surroundings } from '../../src/command/command.ts'
import {
  decideHostCommand,
  loadPolicy,
  type EffectiveHostCommands,
  type HostCommandDecision,
  type PolicyInput,
} from '../../src/policy/policy.ts'
import type { CommandFacts } from '../../src/wire/command.ts'

export const AROUND: Surroundings = { home: '/home/operator/.sallyport', workspace: '/home/operator/project', operatorPorts: [7_878] }

/** A policy whose section is this JSON, which YAML is too. */
export function commandPolicy(section: object, presence?: object, restricted: readonly PolicyInput[] = []): EffectiveHostCommands {
  const text = JSON.stringify({ version: 1, host_commands: { mode: 'allowlist', ...section }, ...(presence && { presence }) })
  return loadPolicy([{ file: 'operator.yaml', text }], { policyDirs: [], restricted }).hostCommands
}

/** An allowance of anything that begins with these words. */
export function open(...words: string[]): object {
  return { pattern: [...words, '**'].join(' '), open_tail: 'accept' }
}

export async function decided(
  policy: EffectiveHostCommands,
  wish: string | readonly string[],
  { cwd = '.', now = 0, around = AROUND }: { cwd?: string; now?: number; around?: Surroundings } = {},
): Promise<HostCommandDecision & { facts: CommandFacts }> {
  const asked: CommandWish = typeof wish === 'string' ? { command: wish } : { argv: wish }
  const facts = await describeCommand(asked, around)
  return { ...decideHostCommand(policy, facts, cwd, now), facts }
}
