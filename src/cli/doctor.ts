import { doctorParts, examine, type DoctorRow } from '../controller/doctor/doctor.ts'
import { system } from '../kernel/system.ts'
import { VERSION } from '../kernel/version.ts'
import { visibleJson } from '../kernel/visible.ts'
import { homeOf, packageRoot, parseFlags, type Command } from './command.ts'

const MARKS = { ok: '✓', warning: '!', failure: '✗' } as const

/** `sallyport doctor`. */
export const doctorCommand: Command = {
  summary: 'say what this machine and its engine can hold',
  usage: `usage: sallyport doctor [--json]

Looks at the engine, this machine and $SALLYPORT_HOME, and tries in throw-away containers of the sidecar's image whether a session
would be held here: whether its network reaches a service of this machine, who its names are asked of, whether the hardening is
what was asked for, whether a socket can be mounted. Everything that it makes is removed again. No daemon is needed.

  --json     an array of {id, what, state, found, todo?}; state is ok, warning or failure

The image is that of SALLYPORT_SIDECAR_IMAGE, by default sallyport/sidecar:${VERSION}.

Exit code: 0 no failure (there may be warnings); 1 a failure: sessions can't be held here; 2 for a wrong command line.
`,
  async run(argv, io) {
    const { values } = parseFlags(argv, { json: { type: 'boolean' } }, { min: 0, max: 0 })
    const stop = new AbortController()
    const onSignal = (): void => stop.abort()
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, onSignal)
    const parts = doctorParts({ home: homeOf(io.env), packageRoot, environment: io.env, system })
    const rows = await examine(parts, stop.signal)
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.removeListener(name, onSignal)
    io.out(values.json === true ? visibleJson(rows) : print(rows))
    return rows.some(({ state }) => state === 'failure') ? 1 : 0
  },
}

function print(rows: readonly DoctorRow[]): string {
  const width = Math.max(...rows.map(({ what }) => what.length))
  const lines = rows.flatMap(({ what, state, found, todo }) => [
    `${MARKS[state]} ${what.padEnd(width)}  ${found}`,
    ...(todo === undefined ? [] : [`  ${' '.repeat(width)}  → ${todo}`]),
  ])
  const count = (state: DoctorRow['state']): number => rows.filter((row) => row.state === state).length
  return `${lines.join('\n')}\n\n${count('ok')} ok, ${count('warning')} warnings, ${count('failure')} failures\n`
}
