import { execFile } from 'node:child_process'
import { codeOf } from '../../kernel/errors.ts'
import { LIMITS } from '../../kernel/limits.ts'

export type Said = { readonly code: number; readonly stdout: string; readonly stderr: string }

/** Runs `docker ARGS` to its end and never throws. What runs longer than the signal allows is killed: code 124. */
export type Docker = (args: readonly string[], signal: AbortSignal) => Promise<Said>

const OUTPUT_BYTES_MAX = 8 * 1024 * 1024

/** The client of this machine, by `PATH` and with the operator's own environment: it knows which engine is meant. */
export function createDocker(program: string, environment: Readonly<Record<string, string | undefined>>): Docker {
  return (args, signal) =>
    new Promise((resolve) => {
      const options = {
        encoding: 'utf8',
        env: environment,
        killSignal: 'SIGKILL',
        maxBuffer: OUTPUT_BYTES_MAX,
        signal,
        timeout: LIMITS.doctorCallMs,
      } as const
      execFile(program, [...args], options, (error, stdout, stderr) => {
        if (error === null) return resolve({ code: 0, stdout, stderr })
        if (error.killed === true || signal.aborted) return resolve({ code: 124, stdout, stderr: 'no answer in time' })
        const isMissing = codeOf(error) === 'ENOENT'
        resolve({ code: isMissing ? 127 : Number(error.code ?? 1) || 1, stdout, stderr: isMissing ? `${program} is not there` : stderr })
      })
    })
}

/** The last line that a program complained with. */
export function complaintOf({ stderr, stdout, code }: Said): string {
  const lines = (stderr.trim() || stdout.trim()).split('\n')
  return (lines.at(-1) ?? '').slice(0, 300) || `exit ${code}`
}
