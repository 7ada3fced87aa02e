import assert from 'node:assert/strict'
import path from 'node:path'
import type { Browser, BrowserContext, Locator, Page } from 'playwright-core'
import { ROOT } from '../../scripts/steps.ts'
import { readPage } from '../../src/controller/operator/page-files.ts'
import type { QuestionWish } from '../../src/wire/question.ts'
import { openBrowser } from './browser.ts'
import { eventually } from './eventually.ts'
import { openOperator, type Operator } from './operator.ts'
import { watchedTab } from './operator-page.ts'

export type InboxPage = AsyncDisposable & {
  readonly operator: Operator
  readonly browser: Browser
  readonly faults: string[]
  /** A tab that is logged in, with the inbox live. `init` runs in it before the page. */
  openTab(init?: string): Promise<Page>
  /** One more tab of the same browser window. */
  openBeside(context: BrowserContext, init?: string): Promise<Page>
  /** A page as it is when it was just opened, in the same tab. */
  loadAnew(tab: Page): Promise<void>
  /** Puts these, and waits until all of them are there. */
  askAll(wishes: readonly QuestionWish[]): Promise<void>
  /** Programs of the commands that wait, in the order of the page. */
  programs(): string[]
  /** Withdraws all that waits. */
  clear(): void
}

const WAIT_MS = 8_000

/** The built page with the approvals of a real controller, without sessions: whoever asks is the test. */
export async function openInboxPage(options: { readonly port?: number } = {}): Promise<InboxPage> {
  await using parts = new AsyncDisposableStack()
  const files = readPage(path.join(ROOT, 'dist', 'page'))
  const operator = parts.use(await openOperator({ ...options, files }))
  const { browser } = parts.use(await openBrowser({ args: [] }))
  const faults: string[] = []
  const { approvals, logins, web } = operator
  const loadAnew = async (tab: Page): Promise<void> => {
    // With a query: another fragment of the same address loads nothing.
    await tab.goto(`${web.url}/?#ticket=${logins.ticket()}`)
    await tab.getByText('live', { exact: true }).waitFor({ state: 'attached' })
  }
  const enter = async (tab: Page, init?: string): Promise<Page> => {
    tab.setDefaultTimeout(WAIT_MS)
    if (init !== undefined) await tab.addInitScript(init)
    await loadAnew(tab)
    return tab
  }
  const all = parts.move()
  return {
    operator,
    browser,
    faults,
    openTab: async (init) => enter(await watchedTab(browser, web.url, faults), init),
    openBeside: async (context, init) => enter(await context.newPage(), init),
    loadAnew,
    async askAll(wishes) {
      const stop = new AbortController()
      const events = approvals.watch('terminal', stop.signal)
      for (const wish of wishes) approvals.ask(wish, new AbortController().signal).catch(() => undefined)
      let count = 0
      for await (const { kind } of events) if (kind === 'asked' && ++count === wishes.length) stop.abort()
    },
    programs: () =>
      approvals
        .list({ state: 'pending' })
        .toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
        .flatMap(({ subject }) => (subject.kind === 'command' ? subject.argv.slice(0, 1) : [])),
    clear() {
      for (const { id, asker } of approvals.list({ state: 'pending' })) approvals.cancel(id, asker.session)
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

export function articleIn(tab: Page): Locator {
  return tab.getByRole('article', { name: 'Question' })
}

/** To the end of what is asked. */
export async function toTheEnd(tab: Page): Promise<void> {
  await articleIn(tab).getByRole('button', { name: 'Show all of it' }).waitFor()
  await articleIn(tab).getByRole('region', { name: 'What is asked' }).focus()
  await tab.keyboard.press('End')
}

/** The same, and until a yes is taken. */
export async function armed(tab: Page): Promise<void> {
  await toTheEnd(tab)
  await articleIn(tab).locator('button[aria-disabled="false"]').first().waitFor()
}

/** Presses what says yes, once it is taken. */
export async function allow(tab: Page, name: string): Promise<void> {
  await toTheEnd(tab)
  await articleIn(tab).locator('button[aria-disabled="false"]', { hasText: name }).click()
}

/** Waits until an expression holds in a tab: the page's policy lets no function wait in it. */
export async function isSo(tab: Page, expression: string): Promise<void> {
  await eventually(async () => assert.equal(await tab.evaluate(expression), true, expression))
}
