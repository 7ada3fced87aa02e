import { entriesOf, valueAt } from '../entries.ts'
import type { Layer } from '../layers.ts'
import type { EffectiveHostCommands, HostCommandRule, Place, Said } from '../model.ts'
import { Tier } from '../../wire/question.ts'
import { CommandRule, HostCommands, LISTS, parseExpiry, PresenceSection, type CommandRuleEntry } from './schema.ts'

/** A rule with what is written about it. */
export type WrittenRule = { readonly rule: HostCommandRule; readonly entry: CommandRuleEntry }

/** `host_commands` and `presence` of all layers: rules add up, of the rest the last word counts. */
export function assembleHostCommands(layers: readonly Layer[]): EffectiveHostCommands {
  return {
    mode: lastSaid(layers, ['host_commands', 'mode'], HostCommands.shape.mode.unwrap()) ?? { value: 'always-prompt' },
    presence: {
      safe: lastSaid(layers, ['presence', 'safe'], PresenceSection.shape.safe.unwrap()) ?? { value: 'T0' },
      caution: lastSaid(layers, ['presence', 'caution'], Tier) ?? { value: 'T0' },
      dangerous: lastSaid(layers, ['presence', 'dangerous'], Tier) ?? { value: 'T1' },
    },
    rules: writtenRules(layers).map(({ rule }) => rule),
  }
}

/** Every rule that is well-formed, in the order of the files. */
export function writtenRules(layers: readonly Layer[]): WrittenRule[] {
  return layers.flatMap((layer) =>
    LISTS.flatMap((list) =>
      entriesOf(layer, ['host_commands', list]).flatMap(({ raw, from }) => {
        const entry = CommandRule.safeParse(typeof raw === 'string' ? { pattern: raw } : raw).data
        return entry === undefined ? [] : [{ entry, rule: toRule(list, entry, from) }]
      }),
    ),
  )
}

function toRule(list: (typeof LISTS)[number], entry: CommandRuleEntry, from: Place): HostCommandRule {
  const expiresAt = entry.expires === undefined ? undefined : parseExpiry(entry.expires)
  return {
    list: list === 'always_allow' ? 'allow' : list,
    pattern: entry.pattern,
    ...(entry.cwd !== undefined && { cwd: entry.cwd }),
    environment: entry.env ?? {},
    openTail: entry.open_tail === 'accept',
    workspaceCode: entry.workspace_code === 'accept',
    ...(entry.presence !== undefined && { presence: entry.presence }),
    ...(expiresAt !== undefined && { expiresAt }),
    from,
  }
}

/** The value of the last layer that says one, and where. What is not well-formed is left out: its error is known. */
function lastSaid<T>(
  layers: readonly Layer[],
  path: readonly string[],
  schema: { safeParse(value: unknown): { data?: T | undefined } },
): Said<T> | undefined {
  for (const { document } of layers.toReversed()) {
    const value = schema.safeParse(valueAt(document.data, path)).data
    if (value !== undefined) return { value, from: document.placeOf(path) }
  }
  return undefined
}
