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

/** Whether services take credentials in this field, as lenient servers read its name. */
export function isCredentialField(name: string): boolean {
  return CREDENTIAL_FIELDS.has(foldName(name))
}

/** A field name as lenient servers read it: all but letters and digits counts as "-", since CGI and WSGI make one variable of them. */
export function foldName(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '-')
}

/** Every value of a field, in order. Headers are name, value, name, value, …; `name` is lower case. */
export function valuesOf(headers: readonly string[], name: string): string[] {
  const values: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]?.toLowerCase() === name) values.push(headers[i + 1] ?? '')
  }
  return values
}
