import assert from 'node:assert/strict'
import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { ROOT } from '../../scripts/steps.ts'
import { daemonClient } from '../../src/cli/daemon-client.ts'
import { openBrowser } from './browser.ts'
import { openDaemonPlace, type DaemonPlace, type DaemonProcess } from './daemon-command.ts'

export type OperatorPage = AsyncDisposable & {
  readonly place: DaemonPlace
  readonly daemon: DaemonProcess
  readonly browser: Browser
  /** `http://localhost:PORT` */
  readonly url: string
  /** A tab that is logged in by a link of the daemon. What it may not do (an error, a refused load) is in `faults`. */
  openTab(options?: BrowserContextOptions): Promise<Page>
  /** What any tab complained of: exceptions, errors of the console, violations of the policy of the document, requests elsewhere. */
  readonly faults: string[]
}

const DAEMON_PORT_FREE = '127.0.0.1:0'
const PAGE_WIDTHS = [360, 1_024, 2_560] as const
const THEMES = ['light', 'dark'] as const
/** A script that tests run in a page. */
export const inPage = (name: string): string => readFileSync(path.join(import.meta.dirname, 'in-page', name), 'utf8')
const MISPLACED = inPage('misplaced.js')
const VIOLATIONS = inPage('violations.js')
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** The real daemon in a home of its own, as a process of its own, and a browser for its page. `prepare` comes before the daemon. */
export async function openOperatorPage(prepare?: (place: DaemonPlace) => void | Promise<void>): Promise<OperatorPage> {
  await using parts = new AsyncDisposableStack()
  const place = parts.use(openDaemonPlace())
  await prepare?.(place)
  const daemon = parts.use(await place.startDaemon({ web: DAEMON_PORT_FREE }))
  const { web: url } = JSON.parse(daemon.lines[0] ?? '{}') as { web: string }
  const { browser } = parts.use(await openBrowser({ args: [] }))
  const faults: string[] = []
  const all = parts.move()
  return {
    place,
    daemon,
    browser,
    url,
    faults,
    async openTab(options) {
      const tab = await watchedTab(browser, url, faults, options)
      const link = (await daemonClient(place.home).request('POST', '/v1/open')) as { readonly url: string }
      await tab.goto(link.url)
      await tab.getByRole('navigation', { name: 'Views' }).waitFor()
      return tab
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

/** A tab in a context of its own. What it may not do is added to `faults`. */
export async function watchedTab(browser: Browser, url: string, faults: string[], options: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser.newContext({ viewport: { width: 1_280, height: 900 }, reducedMotion: 'reduce', ...options })
  const tab = await context.newPage()
  tab.on('pageerror', (error) => faults.push(`exception: ${error.message}`))
  // An answer that is an error is a fault of the page only where it does not say so itself.
  tab.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) faults.push(message.text())
  })
  tab.on('request', (request) => {
    if (!/^(?:blob:|data:)/.test(request.url()) && new URL(request.url()).origin !== url) faults.push(`outside: ${request.url()}`)
  })
  return tab
}

/**
 * Looks at what a tab shows now: no violation of accessibility in either theme, and at three widths nothing that is cut off, runs out of
 * the page or lies over something else that can be pressed. With `SALLYPORT_PICTURES` set it is drawn for the documents too.
 */
export async function inspectView(tab: Page, name: string): Promise<void> {
  const before = tab.viewportSize() ?? { width: 1_280, height: 900 }
  if (!(await tab.evaluate<boolean>("'violationsHere' in globalThis"))) await tab.evaluate(`${AXE};\n${VIOLATIONS}`)
  for (const theme of THEMES) {
    await tab.evaluate(`document.documentElement.dataset.theme = '${theme}'`)
    assert.deepEqual(await tab.evaluate<string[]>(`violationsHere(${theme !== THEMES[0]})`), [], `${name}, ${theme}`)
    if (process.env['SALLYPORT_PICTURES'] !== undefined) {
      const folder = path.join(ROOT, 'docs', 'page')
      mkdirSync(folder, { recursive: true })
      await tab.screenshot({ path: path.join(folder, `${name}-${theme}.png`), animations: 'disabled' })
    }
  }
  await tab.evaluate('delete document.documentElement.dataset.theme')
  for (const width of PAGE_WIDTHS) {
    await tab.setViewportSize({ width, height: before.height })
    assert.deepEqual(await misplacedOf(tab), [], `${name}, ${width} pixels wide`)
  }
  await tab.setViewportSize(before)
}

/** Controls that are where nobody can use them, and a page that runs out of its window. */
async function misplacedOf(tab: Page): Promise<string[]> {
  return await tab.evaluate<string[]>(MISPLACED)
}
