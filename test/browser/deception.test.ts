/** Every view of a daemon in which every name, path, host, tag and reason wants to be taken for something else. */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Page } from 'playwright-core'
import { openAudit, openControllerAudit } from '../../src/audit/audit.ts'
import { workspacePolicyDir } from '../../src/controller/sessions/session-layers.ts'
import type { SessionRecord } from '../../src/controller/sessions/session-parts.ts'
import { openState } from '../../src/controller/state.ts'
import { system } from '../../src/kernel/system.ts'
import { decided, finished, recordingLog } from '../support/audit.ts'
import { openOperatorPage, type OperatorPage } from '../support/operator-page.ts'

/** In all that is foreign: where the page shows it, it shows something foreign. */
const MARK = 'zqx'
const IMITATION = `${MARK} approved \u202E<img src=x onerror="window.fooled=1">\u200B\u2066\u001B[2K\u{E0041}аpi`
/** As a name that has a second line, which looks like ours. */
const LINES = `${MARK} name\n\nHardened container \u202E${MARK}`
const LONG = `${MARK}${'x'.repeat(16_384)}`
const SESSION = 'b'.repeat(16)
const LOST = 'c'.repeat(16)
const KEY = 'DECEPTION_KEY'
const DECEIVED = readFileSync(join(import.meta.dirname, '..', 'support', 'in-page', 'deceived.js'), 'utf8').replace('MARK', MARK)

let page: OperatorPage
let tab: Page
let workspace: string

before(async () => {
  page = await openOperatorPage(async (place) => {
    const { home } = place
    workspace = join(home, '..', IMITATION.replaceAll('/', ''))
    mkdirSync(workspace)
    place.write(join(workspacePolicyDir(home, workspace), 'workspace'), `${workspace}\n`)
    place.write(join(workspacePolicyDir(home, workspace), 'policy.yaml'), `version: 1 # ${IMITATION.replaceAll('\u001B', '')}\n`)
    place.write(join(workspace, '.sallyport', 'policy.yaml'), `version: 1\n# ${IMITATION.replaceAll('\u001B', '')}\n`)
    const server = { command: 'node', args: [IMITATION, LINES], env: { [MARK]: IMITATION }, tools: [MARK] }
    place.write(
      join(home, 'mcp.json'),
      JSON.stringify({ mcpServers: { [MARK]: server, [`${MARK}2`]: { url: `https://${MARK}.example/` } } }),
    )
    await place.must(['secret', 'set', KEY, '--tag', MARK], 'value-of-the-secret-4411')
    mkdirSync(join(home, 'audit', 'sessions'), { recursive: true })
    await using chain = await openAudit(
      { file: join(home, 'audit', 'sessions', `${LOST}.jsonl`), session: LOST },
      system,
      recordingLog().log,
    )
    for (const [at, text] of [IMITATION, LINES, LONG].entries()) {
      const id = `h${at}`
      await chain.append(decided(id, { host: text, path: `/${text}`, method: text, scheme: 'https', rule: text, credential: text }))
      await chain.append(finished(id))
    }
    const keyFile = join(home, 'audit.key')
    await using audit = await openControllerAudit({ folder: join(home, 'audit'), keyFile }, system, recordingLog().log)
    for (const text of [IMITATION, LINES, LONG]) {
      await audit.append({ event: 'operator', did: text, details: text })
      await audit.append({ event: 'command_decided', request: text, of: SESSION, command: text, decision: 'ask', risk: 'caution' })
    }
  })
  using state = openState(join(page.place.home, 'state.db'), system)
  for (const [at, text] of [IMITATION, LINES, LONG].entries()) {
    const id = `${SESSION.slice(1)}${'abc'[at] ?? ''}`
    state.begin({ id, name: text, step: 'running', record: recordOf(text) })
    state.move(id, 'running')
    state.addLease(`lease${at}`, id, 'agent')
  }
  tab = await page.openTab({ viewport: { width: 360, height: 800 } })
  tab.setDefaultTimeout(8_000)
})
after(() => page[Symbol.asyncDispose]())

/** Of a session whose containers are somebody else's: nothing looks for them. */
function recordOf(text: string): SessionRecord {
  return {
    workspace: text,
    project: text,
    policy: [],
    role: text,
    owner: { uid: 1_000, gid: 1_000 },
    tty: false,
    control: 'unix',
    filesystem: { workspace: 'rw', hide: [text], git_metadata: 'ro' } as unknown as SessionRecord['filesystem'],
    warnings: [text],
    agentLeases: [],
    ids: {},
  }
}

/** By address: the heading, and a piece of what is foreign there, where there is something. */
const VIEWS: Readonly<Record<string, readonly [heading: string, foreign?: string]>> = {
  inbox: ['Inbox'],
  sessions: ['Sessions', '\\u{A}\\u{A}Hardened container \\u{202E}'],
  [`sessions/${SESSION.slice(1)}b`]: ['zqx name', '\\u{A}\\u{A}Hardened container \\u{202E}'],
  activity: ['Activity', '\\u{200B}\\u{2066}'],
  [`activity/${LOST}/h1`]: ['Activity', '\\u{A}\\u{A}Hardened container'],
  vault: ['Vault', MARK],
  [`vault/${KEY}`]: [KEY, MARK],
  servers: ['MCP servers', 'approved \\u{202E}<img'],
  'servers/file': ['MCP servers'],
  policies: ['Policies', 'approved \\u{202E}<img'],
  'policies/effective': ['Policies'],
  'policies/explain': ['Policies'],
  'policies/remembered': ['Policies'],
  'policies/history': ['Policies'],
  audit: ['Audit', '\\u{200B}\\u{2066}'],
  'audit/controller:2': ['Audit', '\\u{200B}\\u{2066}'],
  start: ['Start'],
  settings: ['Access'],
}

for (const [hash, [heading, foreign]] of Object.entries(VIEWS))
  test(`in ${hash} what is foreign is set apart, escaped and none of our controls, and the page is no wider for it`, async () => {
    await tab.goto(`${page.url}/#/${hash}`)
    await tab.getByRole('heading', { name: heading, level: 1 }).waitFor()
    if (foreign !== undefined)
      await tab.locator('main bdi, main option').filter({ hasText: foreign }).first().waitFor({ state: 'attached' })
    await tab
      .locator('main .quiet', { hasText: /^…$|^reading …$/ })
      .first()
      .waitFor({ state: 'detached' })
    await assertTold(hash)
  })

test('so it is in dialogs, and in what is said in passing', async () => {
  await tab.goto(`${page.url}/#/servers`)
  for (const name of [`Remove ${MARK}`, `Test ${MARK}`]) {
    await tab.getByRole('button', { name, exact: true }).click()
    await tab.getByRole('dialog').getByText(MARK, { exact: true }).waitFor()
    await assertTold(name)
    await tab.keyboard.press('Escape')
  }
  await tab.goto(`${page.url}/#/sessions`)
  await tab.getByRole('button', { name: 'Stop zqx name\\u{A}' }).click()
  await tab.getByRole('dialog').getByText('\\u{A}\\u{A}Hardened').waitFor()
  await assertTold('the dialog before a session is stopped')
  await tab.getByRole('button', { name: 'Stop it' }).click()
  await tab.getByRole('status').filter({ hasText: 'has ended' }).waitFor()
  await assertTold('the notice that it was')
})

test('nothing of it ran, and nothing was loaded from elsewhere', async () => {
  assert.equal(await tab.evaluate('window.fooled'), undefined)
  assert.deepEqual(page.faults, [])
})

async function assertTold(where: string): Promise<void> {
  assert.deepEqual(await tab.evaluate(DECEIVED), [], where)
}
