import { LIMITS } from '../kernel/limits.ts'
import { shown } from '../kernel/shown.ts'
import type { System } from '../kernel/system.ts'
import type { PullView } from '../wire/operator.ts'

const MEBIBYTE = 1_024 ** 2

export type Pulling = {
  /** How far an image has come. */
  pull(view: PullView): void
  /** Whatever is printed next begins a line of its own. */
  clear(): void
}

/**
 * Shows how images come: on a terminal in one line that is written over, elsewhere in lines, one every `LIMITS.pullLineMs` at most for
 * each image, and its last.
 * @param columns of the terminal; undefined where there is none
 */
export function createPulling(err: (text: string) => void, columns: () => number | undefined, system: Pick<System, 'elapsed'>): Pulling {
  const running = new Map<string, PullView>()
  const printed = new Map<string, number>()
  let isOpen = false
  const clear = (): void => {
    if (isOpen) err('\r\u001B[K')
    isOpen = false
  }
  return {
    pull(view) {
      const width = columns()
      if (view.isDone) running.delete(view.image)
      else running.set(view.image, view)
      if (width !== undefined) {
        clear()
        if (view.isDone) return err(`${line(view)}\n`)
        err(
          [...running.values()]
            .map(line)
            .join('; ')
            .slice(0, Math.max(width - 1, 0)),
        )
        isOpen = true
        return
      }
      const before = printed.get(view.image)
      if (!view.isDone && before !== undefined && system.elapsed() - before < LIMITS.pullLineMs) return
      printed.set(view.image, system.elapsed())
      err(`${line(view)}\n`)
    },
    clear,
  }
}

function line({ image, layers, layersDone, doneBytes, totalBytes, isDone }: PullView): string {
  if (isDone) return `· pulled ${shown(image)} (${size(totalBytes)})`
  return `· pulling ${shown(image)}: ${layersDone} of ${layers} layers, ${size(doneBytes)} of ${size(totalBytes)}`
}

function size(bytes: number): string {
  return `${(bytes / MEBIBYTE).toFixed(1)} MiB`
}
