import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { ROOT } from '../scripts/steps.ts'

/** Parts of docs/PERFORMANCE.md that are written by a run. */
export type Section = 'figures' | 'scale' | 'soak' | 'profile' | 'sessions'

/** The text with what stands between a section's markers replaced. @throws Error when the markers are not there once, in order */
export function replaceSection(text: string, section: Section, body: string): string {
  const [begin, end] = [`<!-- bench:${section} -->`, `<!-- /bench:${section} -->`]
  const from = text.indexOf(begin)
  const to = text.indexOf(end)
  if (from === -1 || to < from || text.includes(begin, from + 1)) throw new Error(`the document has no part ${begin} … ${end}`)
  return `${text.slice(0, from + begin.length)}\n\n${body.trim()}\n\n${text.slice(to)}`
}

/** Writes one section of docs/PERFORMANCE.md, and its pictures beside it as `bench-NAME.svg`. */
export function writeSection(section: Section, body: string, pictures: Readonly<Record<string, string>>): void {
  const file = path.join(ROOT, 'docs', 'PERFORMANCE.md')
  for (const [name, picture] of Object.entries(pictures)) writeFileSync(path.join(ROOT, 'docs', `bench-${name}.svg`), picture)
  writeFileSync(file, replaceSection(readFileSync(file, 'utf8'), section, body))
}

/** A picture in Markdown, as it is named by `writeSection`. */
export function pictureLink(name: string, about: string): string {
  return `![${about}](bench-${name}.svg)`
}
