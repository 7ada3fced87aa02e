import { resolve } from 'node:path'

const WHICH = '[--workspace DIR] [--harness NAME] [--policy FILE]… [--role NAME]'

/** How each of the subcommands is written. */
export const MCP_USAGES = {
  ls: `sallyport mcp ls ${WHICH} [--json]`,
  check: `sallyport mcp check ${WHICH} [--json]`,
  test: `sallyport mcp test NAME [--session ID | ${WHICH}] [--json]`,
  config: `sallyport mcp config ${WHICH}`,
  wrap: 'sallyport mcp wrap --name NAME [--workspace DIR] [--policy FILE]… [--role NAME] -- CMD…',
} as const

/** Flags that say which session is meant. */
export const QUERY_FLAGS = {
  workspace: { type: 'string' },
  harness: { type: 'string' },
  policy: { type: 'string', multiple: true },
  role: { type: 'string' },
} as const

type Given = {
  readonly workspace?: string | undefined
  readonly harness?: string | undefined
  readonly policy?: string[] | undefined
  readonly role?: string | undefined
}

/** What they mean: with whole paths, as the daemon has another current folder. */
export function queryOf({ workspace = '.', harness, policy = [], role }: Given) {
  return {
    workspace: resolve(workspace),
    policy: policy.map((file) => resolve(file)),
    ...(harness !== undefined && { harness }),
    ...(role !== undefined && { role }),
  }
}
