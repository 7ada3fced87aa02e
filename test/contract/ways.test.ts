import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runCommand } from '../support/command.ts'
import { readProject } from '../support/tree.ts'
import { renderWaysTable, WAYS_TABLE } from '../support/ways-table.ts'

const README = readProject('README.md')
const SECTION = README.slice(README.indexOf('## Every way in')).split('\n## ')[0] ?? ''

test("the README's table of ways and protocols has what each cell's test shows", () => {
  const rows = SECTION.split('\n').filter((line) => line.startsWith('|'))
  const squeeze = (text: string): string => text.replaceAll(/ +/g, ' ').replaceAll(/-+/g, '-')
  const table = squeeze(renderWaysTable().trim()).split('\n')
  const at = rows.findIndex((row) => squeeze(row) === table[0])
  assert.deepEqual(rows.slice(at, at + table.length).map(squeeze), table)
})

test('a test of that title stands behind each cell', () => {
  const tests = readProject('test/e2e/ways-table.test.ts')
  assert.match(tests, /for \(const \{[^}]*title \} of WAYS_TABLE\)\s*\{?\s*test\(`I16 I17 \$\{title\}`/)
  assert.equal(new Set(WAYS_TABLE.map(({ title }) => title)).size, WAYS_TABLE.length)
})

test('the README names the flag and the port of each way as the commands do', async () => {
  const [proxy, sidecar] = await Promise.all([runCommand(['proxy', '--help']), runCommand(['sidecar', '--help'])])
  const ways = [...SECTION.matchAll(/`(--[a-z]+)` \| ([\d, ]+?) \|/g)].map(([, flag = '', ports = '']) => ({
    flag,
    ports: ports.split(', '),
  }))
  assert.deepEqual(
    ways.map(({ flag }) => flag),
    ['--http', '--socks', '--transparent', '--dns', '--gateway'],
  )
  for (const { flag, ports } of ways) {
    assert.match(proxy.stdout, new RegExp(`^ {2}${flag} `, 'm'))
    for (const port of ports) assert.match(sidecar.stdout, new RegExp(`\\b${port}\\b`), `${flag} ${port}`)
  }
})
