import * as z from 'zod'
import { AGENT_METHODS, type AgentMethod } from '../../wire/agent-requests.ts'

/** A schema as JSON Schema 2020-12: one object, with nothing in it that refers elsewhere. */
export type PlainSchema = {
  readonly type: 'object'
  readonly properties: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly required?: readonly string[]
  readonly additionalProperties: false
}

/** What a method takes: what has a default may be left out. */
export function paramsSchema(method: AgentMethod): PlainSchema {
  return plain(AGENT_METHODS[method].params, 'input')
}

/** What it answers. */
export function resultSchema(method: AgentMethod): PlainSchema {
  return plain(AGENT_METHODS[method].result, 'output')
}

function plain(schema: z.ZodObject, io: 'input' | 'output'): PlainSchema {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, {
    io,
    target: 'draft-2020-12',
    reused: 'inline',
    // A map's names are texts in any case; some clients do not know the keyword.
    override: ({ jsonSchema }) => void delete jsonSchema.propertyNames,
  })
  return rest as unknown as PlainSchema
}
