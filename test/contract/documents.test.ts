import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { runCommand } from '../support/command.ts'
import { projectFiles, readProject, ROOT } from '../support/tree.ts'

const DOCUMENTS = projectFiles().filter((file) => file.endsWith('.md'))

for (const document of DOCUMENTS) {
  test(`every file that ${document} names exists`, () => {
    const text = readProject(document)
    const named = [...text.matchAll(/`((?:src|test|docs|docker|scripts|policies|bench|certs)\/[\w./*-]*)`/g)].map((match) => match[1] ?? '')
    for (const path of named) assert.ok(existsSync(join(ROOT, path.replace(/\/?\*.*$/, ''))), path)
    const links = [...text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)].map((match) => match[1] ?? '').filter((link) => !/^[a-z]+:/.test(link))
    for (const link of links) assert.ok(existsSync(join(ROOT, dirname(document), link)), link)
  })
}

test('docs/ARCHITECTURE.md names every file of the data plane', () => {
  const architecture = readProject('docs/ARCHITECTURE.md')
  assert.ok([...architecture.matchAll(/`src\//g)].length >= 10, 'it says where in the code each step is')
  for (const front of ['src/policy/policy.ts', 'src/audit/audit.ts', 'src/pki/pki.ts', 'src/credential/credential.ts']) {
    assert.ok(architecture.includes(front), front)
  }
})

test('docs/THREATS.md says of every file of attacks what it tries', () => {
  const threats = readProject('docs/THREATS.md')
  for (const file of projectFiles().filter((name) => name.startsWith('test/attack/'))) assert.ok(threats.includes(`\`${file}\``), file)
})

/** Name of a command in the README's table, with its subcommands. */
const README_COMMANDS = new Map(
  [...readProject('README.md').matchAll(/^\| `sallyport ([a-z-]+)((?: [a-z\\|-]+)?)/gm)].map(([, name = '', verbs = '']) => [
    name,
    verbs.trim().split(/\\?\|/).filter(Boolean),
  ]),
)

/** `--help` of each command, run once. */
const helps = new Map<string, Promise<string>>()
function helpOf(name: string): Promise<string> {
  const known = helps.get(name) ?? runCommand([name, '--help']).then(({ stdout }) => stdout)
  helps.set(name, known)
  return known
}

test("the README's table of commands is the list that sallyport --help prints", async () => {
  const { stdout } = await runCommand(['--help'])
  const listed = [...stdout.matchAll(/^ {2}([a-z-]+) {2,}\S/gm)].map((match) => match[1] ?? '')
  assert.deepEqual([...README_COMMANDS.keys()].toSorted(), listed.toSorted())
})

for (const [name, verbs] of README_COMMANDS) {
  test(`sallyport ${name} --help knows the subcommands of the README: ${verbs.join(', ') || 'none'}`, async () => {
    const stdout = await helpOf(name)
    for (const verb of verbs) assert.match(stdout, new RegExp(`sallyport ${name} ${verb}\\b`))
  })
}

test('every flag that a document shows for a command is one that its --help has', async () => {
  for (const name of README_COMMANDS.keys()) {
    const stdout = await helpOf(name)
    const known = new Set(stdout.match(/--[a-z-]+/g))
    for (const document of DOCUMENTS) {
      for (const [line] of readProject(document).matchAll(new RegExp(`^.*\\bsallyport ${name}\\b.*$`, 'gm'))) {
        const command = (line.split(new RegExp(`\\bsallyport ${name}\\b`))[1] ?? '').split(/[`#]/)[0] ?? ''
        for (const flag of command.match(/(?<!\S)--[a-z-]+/g) ?? []) assert.ok(known.has(flag), `${document}: ${name} ${flag}`)
      }
    }
  }
})

test('every flag and variable that --help lists is read by the sources', async () => {
  const sources = projectFiles()
    .filter((file) => file.startsWith('src/'))
    .map((file) => readProject(file))
  for (const name of README_COMMANDS.keys()) {
    const stdout = await helpOf(name)
    for (const flag of new Set(stdout.match(/(?<=^ {2})--[a-z-]+/gm))) {
      const option = flag.slice(2)
      assert.ok(
        sources.some(
          (text) => new RegExp(`^\\s+(?:'${option}'|${option}): \\{ type`, 'm').test(text) || text.includes(`{ ${option}: { type`),
        ),
        `${name} ${flag}`,
      )
    }
    for (const variable of new Set(stdout.match(/(?<=^ {2})SALLYPORT_[A-Z_]+/gm))) {
      assert.ok(
        sources.some((text) => text.includes(`'${variable}'`)),
        `${name} ${variable}`,
      )
    }
  }
})
