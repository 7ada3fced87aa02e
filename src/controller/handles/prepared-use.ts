import { posix } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { SallyportError } from '../../kernel/errors.ts'
import { shown } from '../../kernel/shown.ts'
import { describeSource } from '../../policy/policy.ts'
import type { AgentParams } from '../../wire/agent-requests.ts'
import type { Composed, PinnedFile, UseSubject } from '../../wire/question.ts'
import type { RequestPlace } from '../requests/requests.ts'
import { CONTAINER_WORKSPACE } from '../requests/host-run.ts'
import { isWithin } from '../sessions/real-path.ts'
import type { SiblingImage } from '../sessions/sessions.ts'
import { invalidHandle, type HandleBook } from './handle-book.ts'
import { knownSecret, type KnownSecret, type KnownSecretParts } from './known-secret.ts'
import { hasHandle, parseTemplate, type Piece } from './templates.ts'
import { refuseVariable } from './variables.ts'
import { filesOf, folderInWorkspace, type HeldFile } from './workspace-files.ts'
import type { Templates } from './use-values.ts'

export type PrepareParts = KnownSecretParts & {
  readonly handles: Pick<HandleBook, 'look'>
  readonly image: (session: string) => Promise<SiblingImage>
}

export type UseWish = AgentParams<'secret.use_in'>

/** What was asked for, looked at once: what is shown is what runs. */
export type PreparedUse = {
  readonly subject: UseSubject
  readonly files: readonly HeldFile[]
  readonly templates: Templates
  /** Variables without a secret in them. */
  readonly plain: Readonly<Record<string, string>>
  readonly secrets: UsedSecrets
}

/** By handle. */
export type UsedSecrets = ReadonlyMap<string, { readonly name: string; readonly known: KnownSecret }>

/** The texts of a wish, and the secrets behind their handles as they are now. @throws template_invalid, handle_invalid */
export async function secretsOf(
  parts: Omit<PrepareParts, 'image'>,
  place: RequestPlace,
  { argv, env, stdin, cwd = '' }: UseWish,
): Promise<{ readonly variables: Record<string, readonly Piece[]>; readonly stdin?: readonly Piece[]; readonly secrets: UsedSecrets }> {
  if ([...argv, cwd].some(hasHandle))
    throw new SallyportError('template_invalid', 'a handle stands in argv or cwd, which every program of the container can read', {
      hint: 'write it into a variable of env, or into stdin: programs take credentials from there',
    })
  if ([...argv, cwd].some((text) => text.includes('\0') || !text.isWellFormed()))
    throw new SallyportError('command_invalid', 'an argument has a NUL, or is no Unicode text')
  const variables = Object.fromEntries(
    Object.entries(env).map(([name, text]) => {
      refuseVariable(name)
      return [name, parseTemplate(text, `env ${shown(name)}`)] as const
    }),
  )
  const input = stdin === undefined ? undefined : parseTemplate(stdin, 'stdin')
  const handles = [...Object.values(variables), ...(input ? [input] : [])]
    .flat()
    .flatMap((piece) => ('handle' in piece ? piece.handle : []))
  if (handles.length === 0)
    throw new SallyportError('template_invalid', 'there is no handle in env or stdin', {
      hint: 'ask for one with secret.request; a command without secrets needs no container of its own',
    })
  const secrets = new Map(
    await Promise.all([...new Set(handles)].map(async (handle) => [handle, await behind(parts, place, handle)] as const)),
  )
  return { variables, ...(input && { stdin: input }), secrets }
}

/** What the policy has since taken back, or names another place for, is not what was granted. */
async function behind(
  parts: Omit<PrepareParts, 'image'>,
  place: RequestPlace,
  handle: string,
): Promise<{ readonly name: string; readonly known: KnownSecret }> {
  const granted = parts.handles.look(place.asker.session, handle)
  const known = await knownSecret(parts, place, granted.name)
  const isStillSaid = known.permission === 'free' || (known.permission === 'ask' && granted.by === 'operator')
  if (!isStillSaid || !isDeepStrictEqual(known.source, granted.source)) throw invalidHandle()
  return { name: granted.name, known }
}

/** @throws template_invalid, handle_invalid, command_invalid, image_missing */
export async function prepareUse(parts: PrepareParts, place: RequestPlace, wish: UseWish): Promise<PreparedUse> {
  const { argv, workspace, cwd } = wish
  const { variables, stdin, secrets } = await secretsOf(parts, place, wish)
  if (workspace === 'none' && cwd !== undefined)
    throw new SallyportError('command_invalid', 'a folder is named, and the workspace is not there', {
      hint: 'leave cwd out, or ask for workspace ro',
    })
  const { filesystem } = place.policy()
  if (workspace === 'ro' && filesystem.workspace === 'none')
    throw new SallyportError('command_invalid', 'the policy gives this session no workspace', { hint: 'ask with workspace none' })
  const root = place.surroundings.workspace
  const folder = workspace === 'ro' ? await folderInWorkspace(cwd ?? CONTAINER_WORKSPACE, root) : CONTAINER_WORKSPACE
  const files = workspace === 'ro' ? await filesOf(argv, { workspace: root, cwd: folder, hide: filesystem.hide }) : []
  const image = await parts.image(place.asker.session)
  refusePath(image.path)
  const program = await programOf(image, argv[0] ?? '', files, folder)
  const [written, plain] = [true, false].map((wanted) => Object.entries(variables).filter(([, pieces]) => isSecret(pieces) === wanted))
  const shownAs = (pieces: readonly Piece[]): Composed =>
    pieces.map((piece) => ('text' in piece ? piece : { secret: secrets.get(piece.handle)?.name ?? '' }))
  const used = new Map([...secrets.values()].map(({ name, known }) => [name, describeSource(known.source)]))
  return {
    subject: {
      kind: 'secret_use',
      argv: [...argv],
      image: image.id,
      program,
      environment: Object.fromEntries(Object.entries(variables).map(([name, pieces]) => [name, shownAs(pieces)])),
      ...(stdin && { stdin: shownAs(stdin) }),
      secrets: [...used].map(([name, source]) => ({ name, source })).toSorted((one, another) => (one.name < another.name ? -1 : 1)),
      workspace,
      cwd: folder,
      files: files.map(shownFile),
    },
    files,
    templates: { variables: Object.fromEntries(written ?? []), ...(stdin && { stdin }) },
    plain: Object.fromEntries(
      (plain ?? []).map(([name, pieces]) => [name, pieces.map((piece) => ('text' in piece ? piece.text : '')).join('')]),
    ),
    secrets,
  }
}

function isSecret(pieces: readonly Piece[]): boolean {
  return pieces.some((piece) => 'handle' in piece)
}

function shownFile({ argument, prefix, path, sizeBytes, sha256, isExecutable, at }: HeldFile): PinnedFile {
  return { argument, prefix, path, sizeBytes, sha256, isExecutable, at }
}

/** The file that is run: the copy of one of the workspace, or one of the image. What an interpreter of its own names is of the image too. @throws command_invalid */
async function programOf(image: SiblingImage, name: string, files: readonly HeldFile[], folder: string): Promise<string> {
  const refuse = (why: string): SallyportError =>
    new SallyportError('command_invalid', `"${shown(name)}" ${why}`, {
      hint: 'the command runs in the image of the session: the operator can start one with another (session.image in the policy)',
    })
  const own = files.find(({ argument }) => argument === 0)
  if (own === undefined) {
    const found = await image.resolve(name, folder)
    if (found === undefined) throw refuse('is no program of the image')
    return found
  }
  if (!own.isExecutable) throw refuse('is not executable')
  const [, interpreter] = /^#!\s*(\S+)/.exec(own.content.subarray(0, 256).toString('latin1')) ?? []
  if (interpreter !== undefined && (!interpreter.startsWith('/') || (await image.resolve(interpreter, folder)) === undefined))
    throw refuse(`names "${shown(interpreter)}", which is no program of the image`)
  return own.at
}

/** In a folder of the agent's, or one from wherever a program starts, lies what the agent put there. @throws command_invalid */
function refusePath(path: string): void {
  const found = path.split(':').find((folder) => !posix.isAbsolute(folder) || isWithin(CONTAINER_WORKSPACE, posix.normalize(folder)))
  if (found === undefined) return
  throw new SallyportError('command_invalid', `PATH of the image names "${shown(found)}", which the agent could put programs into`, {
    hint: 'the operator takes an image whose PATH has absolute folders outside of the workspace only',
  })
}
