import { parse } from 'yaml'
import * as z from 'zod'
import { SallyportError } from '../../kernel/errors.ts'
import type { RememberedRule } from './questions-file.ts'

const Text = z.string().min(1).max(2_048)

/** What a remembered network rule may say: which requests. Nothing of addresses, TLS or credentials is ever remembered. */
const NetworkRule = z.strictObject({
  host: Text,
  ports: z.array(z.int().min(1).max(65_535)).min(1).max(64).optional(),
  protocol: z.enum(['http', 'tcp']).optional(),
  methods: z.array(Text).min(1).max(64).optional(),
  paths: z.array(Text).min(1).max(64).optional(),
})

/** The entry of `network.rules` that a remembered rule is, from its text: a flow mapping of YAML, or JSON. @throws answer_invalid */
export function networkEntry({ id, rule }: Pick<RememberedRule, 'id' | 'rule'>): Record<string, unknown> {
  let value: unknown
  try {
    value = parse(rule, { maxAliasCount: 0, schema: 'core' })
  } catch (cause) {
    throw new SallyportError('answer_invalid', `the rule "${rule}" is not YAML`, { cause })
  }
  const parsed = NetworkRule.safeParse(value)
  if (!parsed.success)
    throw new SallyportError('answer_invalid', `the rule "${rule}" has more or other than host, ports, protocol, methods and paths`, {
      cause: parsed.error,
    })
  return { id: `remembered.${id}`, action: 'allow', ...parsed.data }
}
