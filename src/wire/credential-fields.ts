import { LIMITS } from '../kernel/limits.ts'
import { memo } from '../kernel/memo.ts'

/**
 * Header fields in which services take credentials, by their folded names. Where one is injected the agent's own value in any of
 * them is dropped: a service that reads two of them may prefer the agent's. And a placeholder may stand in any of them.
 */
const CREDENTIAL_FIELDS: ReadonlySet<string> = new Set([
  'authorization',
  'x-api-key',
  'api-key',
  'apikey',
  'x-auth-token',
  'x-auth-key',
  'x-access-token',
  'x-goog-api-key',
  'x-amz-security-token',
  'private-token',
  'job-token',
  'deploy-token',
  'x-gitlab-token',
  'circle-token',
  'dd-api-key',
  'dd-application-key',
  'x-figma-token',
  'x-vault-token',
  'x-shopify-access-token',
  'x-nuget-apikey',
  'x-jfrog-art-api',
  'x-postmark-server-token',
])

/** The name of a header field, as strict and as lenient servers read it. */
export type FieldName = {
  readonly lower: string
  /** All but letters and digits counts as "-", since CGI and WSGI make one variable of them. */
  readonly folded: string
  /** Whether services take credentials in it. */
  readonly isCredential: boolean
}

/** A handful of names makes up nearly all traffic. */
export const fieldName = memo(LIMITS.textsKeptMax, LIMITS.textKeptCharsMax, (name): FieldName => {
  const lower = name.toLowerCase()
  const folded = lower.replaceAll(/[^a-z0-9]/g, '-')
  return { lower, folded, isCredential: CREDENTIAL_FIELDS.has(folded) }
})

/** Whether services take credentials in this field, as lenient servers read its name. */
export function isCredentialField(name: string): boolean {
  return fieldName(name).isCredential
}

/** A field name as lenient servers read it. */
export function foldName(name: string): string {
  return fieldName(name).folded
}

/** Every value of a field, in order. Headers are name, value, name, value, …; `name` is lower case. */
export function valuesOf(headers: readonly string[], name: string): string[] {
  const values: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const field = headers[i] ?? ''
    if (field.length === name.length && fieldName(field).lower === name) values.push(headers[i + 1] ?? '')
  }
  return values
}
