import type { UpRequest } from '../../wire/operator.ts'

/** The form as it is typed. */
export type StartWish = {
  readonly workspace: string
  readonly harness: string
  readonly role: string
  readonly name: string
  readonly image: string
  readonly policies: string
  readonly command: string
  readonly environment: string
  readonly selftest: boolean
}

export const NO_WISH: StartWish = {
  workspace: '',
  harness: '',
  role: '',
  name: '',
  image: '',
  policies: '',
  command: '',
  environment: '',
  selftest: true,
}

/** What is wrong, by field. */
export type Faults = Readonly<Partial<Record<keyof StartWish, string>>>

const VARIABLE = /^([A-Za-z_][A-Za-z0-9_]*)=(.*)$/

/** The request of a form, as `sallyport up --detach` would make it, or what is wrong with the form. */
export function requestOf(wish: StartWish): { readonly request: UpRequest } | { readonly faults: Faults } {
  const { workspace, harness, role, name, image, selftest } = wish
  const policy = linesOf(wish.policies)
  const variables = linesOf(wish.environment).map((line) => VARIABLE.exec(line))
  const faults: Faults = {
    ...(!workspace.startsWith('/') && { workspace: 'name a folder by its whole path, as /home/me/project' }),
    ...(policy.some((file) => !file.startsWith('/')) && { policies: 'name each file by its whole path' }),
    ...(variables.includes(null) && { environment: 'one NAME=value a line' }),
  }
  if (Object.keys(faults).length > 0) return { faults }
  const environment = Object.fromEntries(variables.flatMap((match) => (match === null ? [] : [[match[1] ?? '', match[2] ?? '']])))
  return {
    request: {
      workspace,
      policy,
      // One argument a line: there is no shell here whose quotes could be meant.
      command: linesOf(wish.command),
      tty: true,
      selftest,
      ...(harness !== '' && { harness }),
      ...(role.trim() !== '' && { role: role.trim() }),
      ...(name.trim() !== '' && { name: name.trim() }),
      ...(image.trim() !== '' && { image: image.trim() }),
      ...(variables.length > 0 && { environment }),
    },
  }
}

function linesOf(text: string): string[] {
  return text.split('\n').filter((line) => line !== '')
}
