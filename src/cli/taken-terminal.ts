import { writeSync } from 'node:fs'
import type { ReadStream } from 'node:tty'
import type { TerminalFilter } from '../controller/terminal/filter.ts'
import { LIMITS } from '../kernel/limits.ts'

/** Signals that end a process, and would leave the terminal as the program in the session had it. */
const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const

/** What is taken: a terminal that shows what `filter` lets through and, with `keyboard`, is in raw mode. */
export type Terminal = { readonly fd: number; readonly filter: TerminalFilter; readonly keyboard?: ReadStream | undefined }

/**
 * Takes the operator's terminal. However the process ends (but for SIGKILL), it is given back as it was: line discipline,
 * screen, mouse, paste, colours, keyboard, cursor. An answer to what the program asked last, which is still on its way when the
 * operator leaves, would be typed into the operator's shell: it is waited for and thrown away, with what was typed meanwhile.
 */
export function takeTerminal({ fd, filter, keyboard }: Terminal): AsyncDisposable {
  let isTaken = true
  const giveBack = (): void => {
    if (!isTaken) return
    isTaken = false
    writeAtOnce(fd, filter.restore())
    setRaw(keyboard, false)
  }
  const onSignal = (signal: NodeJS.Signals): void => {
    giveBack()
    letGo()
    process.kill(process.pid, signal)
  }
  const letGo = (): void => {
    process.off('exit', giveBack)
    for (const signal of ENDING) process.off(signal, onSignal)
  }
  setRaw(keyboard, true)
  process.on('exit', giveBack)
  for (const signal of ENDING) process.on(signal, onSignal)
  return {
    async [Symbol.asyncDispose]() {
      if (isTaken && keyboard !== undefined && filter.hasAsked) {
        writeAtOnce(fd, filter.restore())
        await throwAwayAnswers(keyboard, fd)
      }
      giveBack()
      letGo()
    },
  }
}

/** A terminal answers in order: behind the answer to this question (DSR 5, ECMA-48 §8.3.35) there is none to an earlier one. */
async function throwAwayAnswers(keyboard: ReadStream, fd: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const late = setTimeout(resolve, LIMITS.terminalAnswersMs)
  let typed = ''
  const onData = (chunk: Buffer): void => {
    typed = typed.slice(-8) + chunk.toString('latin1')
    if (typed.includes('\x1b[0n')) resolve()
  }
  keyboard.on('data', onData).resume()
  writeAtOnce(fd, Buffer.from('\x1b[5n'))
  await promise
  clearTimeout(late)
  keyboard.off('data', onData).pause()
}

/** A terminal that is gone cannot be given back. */
function setRaw(keyboard: ReadStream | undefined, isRaw: boolean): void {
  try {
    keyboard?.setRawMode(isRaw)
  } catch {
    // EIO: it was hung up.
  }
}

/** Also in the last moments of a process, when nothing that waits is done any more. */
function writeAtOnce(fd: number, bytes: Buffer): void {
  try {
    let from = 0
    while (from < bytes.length) from += writeSync(fd, bytes, from)
  } catch {
    // EIO: it was hung up. EAGAIN: nobody reads it.
  }
}
