import type { ServersSaved } from '../../wire/servers.ts'
import { notify } from '../parts/notices.tsx'

/** Says when what was saved counts. */
export function notifySaved(what: string, { applied, failed }: ServersSaved): void {
  notify(`${what}. ${effectOf(applied.length)}`)
  for (const { name, code, detail } of failed) notify(`Session ${name} keeps what it had: ${code}: ${detail}`, 'bad')
}

function effectOf(running: number): string {
  if (running === 0) return 'No session runs: the next ones have it.'
  const sessions = running === 1 ? 'One running session has' : `${running} running sessions have`
  return `${sessions} it now at the gate. What its harness calls servers it was told at its start: of a new one it hears at the next.`
}

/** Shown before something is saved. */
export const WHEN =
  'Running sessions get the change at the gate at once, and connections to a server that changed end. A harness was told of its servers when its session began: it learns of a new one with its next session.'
