import { writeFileSync } from 'node:fs'
import { STATUS_CODES } from 'node:http'
import { join } from 'node:path'
import { ERRORS } from '../../src/kernel/errors.ts'

export const ERRORS_DOCUMENT = join(import.meta.dirname, '../../docs/ERRORS.md')

type Entry = { readonly code: string; readonly number: number; readonly means: string }

/** docs/ERRORS.md as the table in src/kernel/errors.ts has it. `node test/support/errors-document.ts` writes it. */
export function errorsDocument(): string {
  const agent: Entry[] = []
  const operator: Entry[] = []
  for (const [code, entry] of Object.entries(ERRORS)) {
    if (entry.to === 'agent') agent.push({ code, number: entry.status, means: entry.means })
    else operator.push({ code, number: entry.exit, means: entry.means })
  }
  return `# Errors

Every code that Sallyport answers with, from \`src/kernel/errors.ts\`. This page is made by \`node test/support/errors-document.ts\`, and a
contract test holds it to the table.

## To an agent

As \`application/problem+json\` (RFC 9457) with \`type\`, \`title\`, \`status\`, \`detail\`, \`code\` and \`request_id\`, and where they are known \`host\`,
\`port\`, \`rule\` and \`hint\`; also in \`Proxy-Status\` (RFC 9209) and in the audit. For a refused CONNECT the code is in the reason phrase too. The
connection ends after it.

| code | status | means |
|---|---|---|
${agent.map(({ code, number, means }) => `| \`${code}\` | ${number} ${STATUS_CODES[number] ?? 'Client Closed Request'} | ${means} |\n`).join('')}
## To an operator

On stderr, as \`code: message\` and where there is one a line \`hint: what to do\`. Exit 1 means failed, 2 wrong usage or configuration.

| code | exit | means |
|---|---|---|
${operator.map(({ code, number, means }) => `| \`${code}\` | ${number} | ${means} |\n`).join('')}`
}

if (import.meta.main) writeFileSync(ERRORS_DOCUMENT, errorsDocument())
