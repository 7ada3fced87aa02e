import { readFileSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parse } from 'yaml'
import * as z from 'zod'
import { LIMITS } from '../kernel/limits.ts'
import type { PresetView } from '../wire/secrets.ts'
import { namesIn } from './home-policies.ts'

/** As much of a preset as is shown before it is chosen. What it says in full is judged where it is extended. */
const Inject = z.looseObject({
  domains: z.array(z.string()).default([]),
  header: z.string().exactOptional(),
  prefix: z.string().exactOptional(),
  basic: z.looseObject({ username: z.string() }).exactOptional(),
  query: z.string().exactOptional(),
  body: z.string().exactOptional(),
  placeholder: z.string().exactOptional(),
  aws: z.looseObject({ access_key_id: z.string().exactOptional(), session_token: z.string().exactOptional() }).exactOptional(),
  also: z.array(z.looseObject({ header: z.string(), secret: z.string().exactOptional() })).exactOptional(),
})
const OAuth = z.looseObject({ client_secret: z.string().exactOptional() })
const Preset = z.looseObject({
  credentials: z.array(z.looseObject({ id: z.string(), secret: z.string(), inject: Inject, oauth2: OAuth.exactOptional() })).default([]),
})
type Credential = z.infer<typeof Preset>['credentials'][number]

/**
 * The ready files of services that write a credential: those of the installation, and the operator's own, which have no name of one of
 * those. Read anew where a file has changed.
 */
export function createServicePresets(folders: readonly string[]): () => readonly PresetView[] {
  const known = new Map<string, { readonly changedMs: number; readonly view: PresetView | undefined }>()
  const look = (file: string): PresetView | undefined => {
    const { mtimeMs: changedMs, size } = statSync(file)
    const before = known.get(file)
    if (before?.changedMs === changedMs) return before.view
    const view = size > LIMITS.policyFileBytesMax ? undefined : presetOf(file, readFileSync(file, 'utf8'))
    known.set(file, { changedMs, view })
    return view
  }
  return () => {
    const files = new Map<string, string>()
    for (const folder of folders)
      for (const name of namesIn(join(folder, 'service')).filter((one) => one.endsWith('.yaml')))
        if (!files.has(name)) files.set(name, join(folder, 'service', name))
    return [...files.values()]
      .slice(0, LIMITS.servicePresetsMax)
      .flatMap((file) => look(file) ?? [])
      .toSorted((a, b) => a.preset.localeCompare(b.preset))
  }
}

function presetOf(file: string, text: string): PresetView | undefined {
  let parsed
  try {
    parsed = Preset.safeParse(parse(text, { maxAliasCount: 0 }))
  } catch {
    return undefined
  }
  if (!parsed.success || parsed.data.credentials.length === 0) return undefined
  const { credentials } = parsed.data
  return {
    preset: `service/${basename(file, '.yaml')}`,
    about: aboutOf(text),
    secrets: [...new Set(credentials.flatMap(secretsOf))],
    credentials: credentials.map((one) => ({ id: one.id, domains: one.inject.domains, place: placeOf(one) })),
    isTemplate: credentials.some(({ inject }) => inject.domains.some((domain) => domain.endsWith('.invalid'))),
  }
}

/** The first sentences of its head. */
function aboutOf(text: string): string {
  const line = text.split('\n').find((one) => /^# \S/.test(one) && !one.startsWith('# yaml-language-server'))
  return line?.slice(2).trim() ?? ''
}

function secretsOf({ secret, inject, oauth2 }: Credential): string[] {
  const others = [
    ...(inject.also ?? []).map((one) => one.secret),
    inject.aws?.access_key_id,
    inject.aws?.session_token,
    oauth2?.client_secret,
  ]
  return [secret, ...others.filter((name) => name !== undefined)]
}

function placeOf({ inject }: Credential): string {
  const { header, prefix = '', basic, query, body, placeholder, aws } = inject
  if (header !== undefined) return `header ${header}${prefix === '' ? '' : `: ${prefix}…`}`
  if (basic !== undefined) return `basic as ${basic.username}`
  if (query !== undefined) return `query ${query}`
  if (body !== undefined) return `body ${body}`
  if (placeholder !== undefined) return `placeholder ${placeholder}`
  return aws === undefined ? '' : 'aws, signed anew'
}
