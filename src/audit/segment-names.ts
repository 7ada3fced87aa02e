import { readdir } from 'node:fs/promises'
import { codeOf } from '../kernel/errors.ts'

const SEGMENT = /^controller\.(\d{6,9})\.jsonl$/

/** Files of the controller's chain: the one that is written to, and those before it by their numbers. */
export const SEGMENTS = {
  active: 'controller.jsonl',
  /** Made ready to become the active one; empty. */
  next: 'controller.next.jsonl',
  checkpoint: 'checkpoint.json',
  publicKey: 'checkpoint.pub',
  sessions: 'sessions',
} as const

export function segmentName(number: number): string {
  return `controller.${String(number).padStart(6, '0')}.jsonl`
}

/** Numbers of the segments in a folder, ascending. None where there is no such folder. */
export async function segmentNumbers(folder: string): Promise<number[]> {
  try {
    const names = await readdir(folder)
    return names
      .flatMap((name) => SEGMENT.exec(name)?.[1] ?? [])
      .map(Number)
      .toSorted((a, b) => a - b)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return []
    throw error
  }
}
