/** Runs a program on a pseudo terminal and shows what the filter lets through of it, on this terminal: PROGRAM ARGUMENT... */
import { createTerminalFilter } from '../../src/controller/terminal/filter.ts'
import { openPty } from './pty.ts'

const filter = createTerminalFilter('screen')
process.stdin.setRawMode(true)
const pty = openPty(process.argv.slice(2), {
  columns: process.stdout.columns,
  rows: process.stdout.rows,
  env: { ...(process.env as Record<string, string>) },
})
process.stdin.pipe(pty.input)
pty.output.on('data', (chunk: Buffer) => {
  process.stdout.write(Buffer.concat(filter.push(chunk).map((part) => part.bytes)))
  for (const answer of filter.answers()) pty.write(answer)
})
process.exitCode = await pty.exited
if (process.env['RESTORE'] === '1') process.stdout.write(filter.restore())
process.stdin.setRawMode(false)
process.stdin.pause()
