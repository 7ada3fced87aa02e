import * as z from 'zod'

const Text = z.string().min(1).max(65_536)

/** What a remembered rule of the network may say: these requests, spelled out. Nothing of addresses, TLS or credentials is ever remembered. */
const NetworkRule = z.strictObject({
  host: Text,
  ports: z.array(z.int().min(1).max(65_535)).min(1).max(64),
  methods: z.array(Text).min(1).max(64),
  paths: z.array(Text).min(1).max(64).optional(),
})
export type NetworkRule = z.infer<typeof NetworkRule>

/** A rule from its text, JSON; `undefined` for anything else. */
export function readNetworkRule(text: string): NetworkRule | undefined {
  try {
    return NetworkRule.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
