/** One file of a session's: a gate that is started again without a file of its own begins a further chain. */
export type ChainName = {
  readonly session: string
  /** 1, 2, 3 … in the order in which they began. */
  readonly chain: number
}

const SESSION_FILE = /^([a-z0-9_-]{1,64})(?:\.([2-9]|[1-9]\d{1,8}))?\.jsonl$/

/** Name of the file of a session's chain: `ID.jsonl`, `ID.2.jsonl` … */
export function chainFileName({ session, chain }: ChainName): string {
  return chain === 1 ? `${session}.jsonl` : `${session}.${chain}.jsonl`
}

/** What a file of `audit/sessions` is; undefined when its name is none that we give. */
export function parseChainFileName(name: string): ChainName | undefined {
  const match = SESSION_FILE.exec(name)
  return match?.[1] === undefined ? undefined : { session: match[1], chain: Number(match[2] ?? 1) }
}
