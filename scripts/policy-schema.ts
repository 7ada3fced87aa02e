import { writeFileSync } from 'node:fs'
import { policyJsonSchema } from '../src/policy/policy.ts'

// Editors read the published schema; a contract test fails when it is not what the parser has.
writeFileSync(new URL('../policies/schema.json', import.meta.url), `${JSON.stringify(policyJsonSchema(), null, 2)}\n`)
