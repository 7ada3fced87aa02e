import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { call, Problem } from '../api/client.ts'

export type Resource<T> = {
  readonly value: T | undefined
  readonly problem: Problem | undefined
  readonly isLoading: boolean
  /** Reads it anew; what is there stays until then. */
  readonly reload: () => void
}

/** What the daemon answers at `path`, read when it is first shown and when the path changes. None for an undefined path. */
export function useResource<T>(path: string | undefined): Resource<T> {
  const [state, setState] = useState<Omit<Resource<T>, 'reload'>>({ value: undefined, problem: undefined, isLoading: true })
  const [round, setRound] = useState(0)
  const shownPath = useRef(path)
  useEffect(() => {
    if (path === undefined) return undefined
    const stop = new AbortController()
    const isSame = shownPath.current === path
    shownPath.current = path
    setState((before) => ({ ...before, value: isSame ? before.value : undefined, isLoading: true }))
    call<T>('GET', path, undefined, stop.signal).then(
      (value) => setState({ value, problem: undefined, isLoading: false }),
      (error: unknown) => {
        if (stop.signal.aborted) return
        if (!(error instanceof Problem)) throw error
        setState((before) => ({ ...before, problem: error, isLoading: false }))
      },
    )
    return () => stop.abort()
  }, [path, round])
  return { ...state, reload: useCallback(() => setRound((before) => before + 1), []) }
}
