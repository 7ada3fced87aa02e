import type { DoctorRow } from '../../wire/first-run.ts'

/** Has the doctor look, or joins a look that goes on: each row is told as it is known, those that are known already at once. */
export type FollowDoctor = (tell: (row: DoctorRow) => void, gone: AbortSignal) => Promise<number>

type Examine = (signal: AbortSignal, tell: (row: DoctorRow) => void) => Promise<readonly DoctorRow[]>

/** One look at a time: it starts containers. It is given up when nobody follows it any more, or by `signal`. */
export function oneDoctorRun(examine: Examine, signal: AbortSignal): FollowDoctor {
  let current: { readonly rows: DoctorRow[]; readonly tells: Set<(row: DoctorRow) => void>; readonly done: Promise<unknown> } | undefined
  let stop = new AbortController()

  function begin() {
    stop = new AbortController()
    const rows: DoctorRow[] = []
    const tells = new Set<(row: DoctorRow) => void>()
    const done = examine(AbortSignal.any([signal, stop.signal]), (row) => {
      rows.push(row)
      for (const tell of tells) tell(row)
    })
    const run = { rows, tells, done }
    const over = (): void => {
      if (current === run) current = undefined
    }
    done.then(over, over)
    return run
  }

  return async (tell, gone) => {
    const run = (current ??= begin())
    const { rows, tells, done } = run
    for (const row of rows) tell(row)
    tells.add(tell)
    const leave = (): void => {
      tells.delete(tell)
      if (tells.size > 0 || current !== run) return
      current = undefined
      stop.abort()
    }
    gone.addEventListener('abort', leave, { once: true })
    if (gone.aborted) leave()
    try {
      await done
    } finally {
      gone.removeEventListener('abort', leave)
      tells.delete(tell)
    }
    return rows.length
  }
}
