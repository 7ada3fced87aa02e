import path from 'node:path'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { ROOT } from '../../scripts/steps.ts'
import { readPage } from '../../src/controller/operator/page-files.ts'
import type { QuestionWish } from '../../src/wire/question.ts'
import { openBrowser } from './browser.ts'
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
  /** Puts these, and waits until all of them are there. */
  askAll(wishes: readonly QuestionWish[]): Promise<void>
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
  const enter = async (tab: Page, init?: string): Promise<Page> => {
    tab.setDefaultTimeout(WAIT_MS)
    if (init !== undefined) await tab.addInitScript(init)
    await tab.goto(`${web.url}/#ticket=${logins.ticket()}`)
    await tab.getByText('live', { exact: true }).waitFor({ state: 'attached' })
    return tab
  }
  const all = parts.move()
  return {
    operator,
    browser,
    faults,
    openTab: async (init) => enter(await watchedTab(browser, web.url, faults), init),
    openBeside: async (context, init) => enter(await context.newPage(), init),
    async askAll(wishes) {
      const stop = new AbortController()
      const events = approvals.watch('terminal', stop.signal)
      for (const wish of wishes) approvals.ask(wish, new AbortController().signal).catch(() => undefined)
      let count = 0
      for await (const { kind } of events) if (kind === 'asked' && ++count === wishes.length) stop.abort()
    },
    clear() {
      for (const { id, asker } of approvals.list({ state: 'pending' })) approvals.cancel(id, asker.session)
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}
