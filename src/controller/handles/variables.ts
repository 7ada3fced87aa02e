import { SallyportError } from '../../kernel/errors.ts'
import { shown } from '../../kernel/shown.ts'
import { isForbiddenVariable } from '../../wire/variables.ts'
import { OWN_VARIABLES } from '../sessions/agent-environment.ts'

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/

/** What programs take credentials and where to use them from, and nothing else: names that would be refused with others of their beginning. */
const OF_CREDENTIALS: ReadonlySet<string> = new Set(
  `PGPASSWORD PGUSER PGHOST PGHOSTADDR PGPORT PGDATABASE PGSSLMODE PGAPPNAME PGCONNECT_TIMEOUT
   AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_REGION AWS_DEFAULT_REGION
   AZURE_CLIENT_ID AZURE_CLIENT_SECRET AZURE_TENANT_ID AZURE_SUBSCRIPTION_ID GOOGLE_API_KEY GH_TOKEN GH_ENTERPRISE_TOKEN GH_HOST GH_REPO
   NODE_AUTH_TOKEN CARGO_REGISTRY_TOKEN UV_PUBLISH_TOKEN UV_PUBLISH_PASSWORD HOMEBREW_GITHUB_API_TOKEN OP_SERVICE_ACCOUNT_TOKEN OP_CONNECT_TOKEN`
    .trim()
    .split(/\s+/),
)

/**
 * Refuses a variable that a command with secrets is not given: what makes a program run, load or trust something else would be the agent's
 * word in the place of what was approved.
 * @throws template_invalid
 */
export function refuseVariable(name: string): void {
  if (!NAME.test(name)) throw new SallyportError('template_invalid', `"${shown(name)}" is no name of a variable`)
  if (!OWN_VARIABLES.has(name) && (!isForbiddenVariable(name) || OF_CREDENTIALS.has(name))) return
  throw new SallyportError(
    'template_invalid',
    `the variable ${name} decides what programs run, load or trust: no command with secrets gets it`,
    {
      hint: 'give it to the program as an argument, where that can be seen',
    },
  )
}
