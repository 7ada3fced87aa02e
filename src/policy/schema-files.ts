import * as z from 'zod'
import { text } from './schema-fields.ts'

const NAME = String.raw`[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?`
const PORT = String.raw`(?::[1-9][0-9]{0,4})?`
const PATH = String.raw`(?:/[A-Za-z0-9._~-]+)*/?`

/** What each program calls a server; all else would be read differently, or as more than a name. */
const SERVERS = {
  npmrc: { form: new RegExp(`^${NAME}${PORT}${PATH}$`), is: 'a host, or a host and a path, as "registry.example.com"' },
  netrc: { form: new RegExp(`^${NAME}$`), is: 'a host without a port, as "github.com"' },
  pypirc: {
    form: new RegExp(`^https?://${NAME}${PORT}${PATH}$`),
    is: 'the URL that is uploaded to, as "https://upload.example.com/legacy/"',
  },
  docker: {
    form: new RegExp(`^(?:https?://)?${NAME}${PORT}${PATH}$`),
    is: 'a registry, as "registry.example.com" or "https://registry.example.com/v1/"',
  },
} as const

export const FILE_KINDS = Object.keys(SERVERS) as (keyof typeof SERVERS)[]

const server = (kind: keyof typeof SERVERS) =>
  text((value) => {
    const { form, is } = SERVERS[kind]
    if (form.test(value)) return undefined
    const bare = value.replace(/^(?:https?:)?\/\//, '')
    return `server "${value}" is not what ${kind} calls one: write ${is}${bare !== value && form.test(bare) ? `; here "${bare}"` : ''}`
  })

/** One word in every format: no white space, quote, comment sign, backslash or colon (RFC 7617 §2). */
const Login = text((value) =>
  /^[A-Za-z0-9_][A-Za-z0-9._~@+|$/=-]{0,254}$/.test(value)
    ? undefined
    : `login "${value}" may have letters, digits and . _ ~ @ + | $ / = - only`,
)

export const CredentialFile = z
  .strictObject({
    npmrc: z.strictObject({ server: server('npmrc') }).optional(),
    netrc: z.strictObject({ server: server('netrc'), login: Login }).optional(),
    pypirc: z.strictObject({ server: server('pypirc'), login: Login.optional().describe('Default: __token__.') }).optional(),
    docker: z.strictObject({ server: server('docker'), login: Login }).optional(),
  })
  .meta({ minProperties: 1, maxProperties: 1 })
  .superRefine((value, context) => {
    const count = Object.keys(value).length
    if (count !== 1)
      context.addIssue({
        code: 'custom',
        message: `file names ${count === 0 ? 'no program' : `${count} programs`}: one of ${FILE_KINDS.join(', ')} is expected`,
      })
  })
