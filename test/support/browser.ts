import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { chromium, type Browser } from 'playwright-core'
import { findChromium } from '../../scripts/clients.ts'
import { run } from '../../scripts/steps.ts'
import { temporaryFolder } from './audit.ts'
import { cleanEnvironment } from './command.ts'

/** Chromium in a home of its own, which trusts the public roots and the authority in `ca`, if that is given. */
export async function openBrowser(options: {
  ca?: string
  args: readonly string[]
}): Promise<AsyncDisposable & { readonly browser: Browser }> {
  await using parts = new AsyncDisposableStack()
  const home = parts.use(await temporaryFolder())
  if (options.ca !== undefined) {
    // As a user would: the store that Chromium shares with others (NSS), certificate marked as an authority for servers.
    const store = join(home.path, '.pki', 'nssdb')
    await mkdir(store, { recursive: true })
    await run('certutil', ['-N', '-d', `sql:${store}`, '--empty-password'])
    await run('certutil', ['-A', '-d', `sql:${store}`, '-n', 'gate', '-t', 'C,,', '-i', options.ca])
  }
  const browser = await chromium.launch({ executablePath: findChromium(), env: cleanEnvironment(home.path), args: [...options.args] })
  parts.defer(() => browser.close())
  const all = parts.move()
  return { browser, [Symbol.asyncDispose]: () => all.disposeAsync() }
}
