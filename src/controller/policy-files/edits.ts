import { hash } from 'node:crypto'
import { diffArrays } from 'diff'
import { isMap, isScalar, isSeq, parseDocument, YAMLMap, YAMLSeq, type Document, type Node } from 'yaml'
import { SallyportError } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'
import type { PolicyEdit } from '../../wire/policies.ts'
import { canonicalJson } from '../approvals/approvals.ts'

type HostEdit = Extract<PolicyEdit, { kind: 'allow_host' }>
type CredentialEdit = Extract<PolicyEdit, { kind: 'credential' }>

/** What an edit needs to know of the moment and of the file. */
export type EditSetting = {
  readonly file: string
  /** When what it allows ends, milliseconds since 1970. */
  readonly expiresAt?: number | undefined
  /** Rules that ended before are taken out of the file in passing. */
  readonly prunedAt?: number | undefined
}

const TIMED_HEADER = `# What the operator allowed for a time. Sallyport writes this file: each rule in it has an end, or ends with its session.
version: 1
network:
  rules: []
`

/**
 * The text of a policy file after an edit. Comments and the order of what is there stay.
 * @param text undefined where there is no file yet
 * @throws policy_change_invalid when the file, or the edit, is not one that this could be done with
 */
export function editedText(text: string | undefined, edit: PolicyEdit | { readonly kind: 'prune' }, setting: EditSetting): string {
  if (edit.kind === 'content') return edit.content
  const isTimed = setting.prunedAt !== undefined
  const before = text ?? (isTimed ? TIMED_HEADER : 'version: 1\n')
  const document = parseDocument(before, { version: '1.2', schema: 'core', uniqueKeys: true })
  if (document.errors.length > 0 || !isMap(document.contents))
    throw refused(`${setting.file} is no policy that a line could be added to`, 'mend it in the editor first')
  if (setting.prunedAt !== undefined) prune(document, setting.prunedAt)
  switch (edit.kind) {
    case 'prune':
      break
    case 'allow_host':
      addRule(document, edit, setting)
      break
    case 'remove_rule':
      removeRule(document, edit.id, setting.file)
      break
    case 'credential':
      addCredential(document, edit)
      break
  }
  return written(document, before)
}

/** The ids of rules that ended, of a file that is ours. */
export function endedRules(text: string, now: number): readonly string[] {
  const document = parseDocument(text, { version: '1.2', schema: 'core' })
  return isMap(document.contents) ? idsOver(document, now) : []
}

function prune(document: Document, now: number): void {
  const over = new Set(idsOver(document, now))
  const rules = document.getIn(['network', 'rules'])
  if (isSeq(rules)) rules.items = rules.items.filter((item) => !(isMap(item) && over.has(String(item.get('id')))))
}

function idsOver(document: Document, now: number): string[] {
  const rules = document.getIn(['network', 'rules'])
  if (!isSeq(rules)) return []
  return rules.items.flatMap((item) => {
    const expires = isMap(item) ? item.get('expires') : undefined
    return isMap(item) && typeof expires === 'string' && Date.parse(expires) <= now ? String(item.get('id')) : []
  })
}

function addRule(document: Document, edit: HostEdit, { file, expiresAt }: EditSetting): void {
  const { host, ports, methods, paths, action = 'allow' } = edit
  const rules = listAt(document, ['network', 'rules'])
  if (rules.items.length >= LIMITS.timedRulesMax && expiresAt !== undefined)
    throw refused(`${file} has ${rules.items.length} rules already`, 'take some of them back')
  rules.add(
    flow(document, {
      id: ruleId(edit, file, expiresAt),
      host,
      ports: ports ?? [443],
      ...(methods && { methods }),
      ...(paths && { paths }),
      action,
      ...(expiresAt !== undefined && { expires: new Date(expiresAt).toISOString() }),
    }),
  )
}

/** The same for the same change, so that it can be looked at before it is made; another one for every other. */
function ruleId(edit: HostEdit, file: string, expiresAt: number | undefined): string {
  const name = edit.host
    .replace(/^\*\./, 'below-')
    .replaceAll(/[^a-z0-9.-]/g, '-')
    .slice(0, 40)
  const digest = hash('sha256', canonicalJson({ edit, file, ...(expiresAt !== undefined && { expiresAt }) }), 'hex')
  return `${edit.action ?? 'allow'}-${name}-${digest.slice(0, 8)}`
}

function removeRule(document: Document, id: string, file: string): void {
  const rules = document.getIn(['network', 'rules'])
  const found = isSeq(rules) ? rules.items.findIndex((item) => isMap(item) && item.get('id') === id) : -1
  if (!isSeq(rules) || found === -1) throw refused(`${file} has no rule "${id}" (any more)`)
  rules.delete(found)
}

function addCredential(document: Document, { secrets, preset, credential }: CredentialEdit): void {
  const [first] = secrets
  if ((preset === undefined) === (credential === undefined) || first === undefined)
    throw refused('a credential comes from a preset, or is one of its own: exactly one of both is named')
  if (preset !== undefined) {
    const names = listAt(document, ['extends'])
    if (!names.items.some((item) => isScalar(item) && item.value === preset)) names.add(document.createNode(preset))
  }
  const declared = listAt(document, ['secrets'])
  for (const { name, source, resources = ['inject'] } of secrets) {
    const own = declared.items.find((item): item is YAMLMap => isMap(item) && item.get('name') === name)
    if (own === undefined) declared.add(flow(document, { name, source, resources }))
    else {
      if (own.get('source') !== source) own.set('source', source)
      grant(document, own, resources)
    }
  }
  if (credential === undefined) return
  const credentials = listAt(document, ['credentials'])
  const entry = flow(document, { id: credential.id, secret: first.name, inject: credential.inject })
  const place = credentials.items.findIndex((item) => isMap(item) && item.get('id') === credential.id)
  if (place === -1) credentials.add(entry)
  else {
    const before = credentials.items[place] as Node
    entry.commentBefore = before.commentBefore ?? null
    entry.comment = before.comment ?? null
    credentials.set(place, entry)
  }
}

/** A secret that names no resources is for whatever refers to it. */
function grant(document: Document, secret: YAMLMap, resources: readonly string[]): void {
  const listed = secret.get('resources', true)
  if (!isSeq(listed)) return
  for (const one of resources) if (!listed.items.some((item) => isScalar(item) && item.value === one)) listed.add(document.createNode(one))
}

/** A list of the file, which is made where there is none. An empty `[]` becomes one with a line for each entry. */
function listAt(document: Document, path: readonly string[]): YAMLSeq {
  const found = document.getIn(path, true)
  if (isSeq(found)) {
    if (found.items.length === 0) found.flow = false
    return found
  }
  if (found !== undefined && !(isScalar(found) && found.value === null))
    throw refused(`"${path.join('.')}" is no list`, 'mend it in the editor first')
  for (const depth of path.slice(0, -1).keys()) {
    const above = document.getIn(path.slice(0, depth + 1), true)
    if (above === undefined || (isScalar(above) && above.value === null)) document.setIn(path.slice(0, depth + 1), new YAMLMap())
    else if (!isMap(above)) throw refused(`"${path.slice(0, depth + 1).join('.')}" is no map`, 'mend it in the editor first')
    else if (above.flow === true) above.flow = above.items.length > 0 && above.flow
  }
  const list = new YAMLSeq()
  document.setIn(path, list)
  return list
}

function flow(document: Document, value: Readonly<Record<string, unknown>>): YAMLMap {
  const node = document.createNode(value, { flow: true })
  if (!isMap(node)) throw refused('it is no map')
  return node
}

/** Written as the file is: lines that nobody changed stay as they stand, whatever the writer would make of them. */
function written(document: Document, before: string): string {
  const untouched = parseDocument(before, { version: '1.2', schema: 'core' })
  const lines = before.split('\n')
  const ways = [true, false].flatMap((indentSeq) =>
    [true, false].map((flowCollectionPadding) => {
      const way = { indentSeq, flowCollectionPadding, lineWidth: 0 } as const
      const again = untouched.toString(way).split('\n')
      return { way, again, stray: again.filter((line) => !lines.includes(line)).length }
    }),
  )
  const [best] = ways.toSorted((a, b) => a.stray - b.stray)
  const text = document.toString(best?.way)
  // Line by line the same file in another spelling: each goes back to its own.
  if (best === undefined || best.again.length !== lines.length) return text
  let at = 0
  const restored = diffArrays(best.again, text.split('\n'))
    .flatMap(({ value, added, removed }) => {
      if (added) return value
      const own = lines.slice(at, at + value.length)
      at += value.length
      return removed ? [] : own
    })
    .join('\n')
  return saysTheSame(restored, text) ? restored : text
}

function saysTheSame(one: string, other: string): boolean {
  const [a, b] = [one, other].map((text) => parseDocument(text, { version: '1.2', schema: 'core' }))
  return a?.errors.length === 0 && JSON.stringify(a.toJS()) === JSON.stringify(b?.toJS())
}

function refused(message: string, hint?: string): SallyportError {
  return new SallyportError('policy_change_invalid', message, hint === undefined ? {} : { hint })
}
