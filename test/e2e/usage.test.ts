import assert from 'node:assert/strict'
import { test } from 'node:test'
import { temporaryFolder } from '../support/audit.ts'
import { cleanEnvironment, runProgram, type Ended } from '../support/command.ts'
import { SOURCES } from '../support/main-file.ts'

/** As a clone runs it: other tests take the bundle where there is one. */
async function run(argv: readonly string[]): Promise<Ended> {
  await using home = await temporaryFolder()
  return await runProgram([process.execPath, SOURCES, ...argv], cleanEnvironment(home.path))
}

for (const { argv, message, hint } of [
  { argv: ['polcy'], message: 'there is no command "polcy": did you mean "policy"?', hint: /lists them: daemon, up, / },
  { argv: ['frobnicate'], message: 'there is no command "frobnicate"', hint: /lists them: daemon, up, / },
  { argv: ['--wrong'], message: 'there is no flag "--wrong"', hint: /--help/ },
  { argv: ['policy'], message: 'policy needs a command', hint: /policy check, .*policy explain, .*policy show/ },
  { argv: ['policy', 'shwo'], message: 'policy has no command "shwo": did you mean "show"?', hint: /policy check, / },
  { argv: ['audit'], message: 'audit needs a command', hint: /sallyport audit verify/ },
  { argv: ['audit', 'show'], message: 'ID is missing', hint: /sallyport audit show/ },
  { argv: ['audit', 'verfy', 'x'], message: 'audit has no command "verfy": did you mean "verify"?', hint: /sallyport audit verify/ },
  { argv: ['proxy', '--polic', 'x'], message: 'unknown flag "--polic": did you mean "--policy"?', hint: /--help/ },
  { argv: ['compose', '--demmo'], message: 'unknown flag "--demmo": did you mean "--demo"?', hint: /--help/ },
]) {
  test(`sallyport ${argv.join(' ')} exits 2, names what is wrong and what there is`, async () => {
    const { code, stdout, stderr } = await run(argv)
    assert.equal(code, 2)
    assert.equal(stdout, '')
    assert.equal(stderr.split('\n')[0], `usage: ${message}`)
    assert.match(stderr.split('\n').slice(1).join('\n'), hint)
  })
}

for (const name of ['proxy', 'sidecar', 'policy', 'secret', 'audit', 'compose']) {
  test(`sallyport ${name} --help begins with how it is written`, async () => {
    const { code, stdout } = await run([name, '--help'])
    assert.equal(code, 0)
    assert.match(stdout, new RegExp(`^usage: sallyport ${name}\\b`))
  })
}
