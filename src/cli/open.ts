import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { replacePrivateFile } from '../kernel/private-file.ts'
import { shown } from '../kernel/shown.ts'
import { system } from '../kernel/system.ts'
import { visibleJson } from '../kernel/visible.ts'
import type { LoginView } from '../wire/operator.ts'
import { homeOf, parseFlags, type Command, type Io } from './command.ts'
import { daemonClient } from './daemon-client.ts'

const OPEN = 'sallyport open [--print]'
const LIST = 'sallyport open --list [--json]'
const CLOSE = 'sallyport open --close ID'

export const openCommand: Command = {
  summary: "open the operator's page in the browser",
  usage: `usage: ${OPEN}
       ${LIST}
       ${CLOSE}

Opens the page of the daemon, logged in. The link is good once and for one minute; who has it has the operator's rights. The browser gets
it from a file that only this user can read, as command lines can be read by others.

  --print      prints the link and opens nothing
  --list       who is logged in: id, since when, last used, the browser's own words
  --json       of --list: one JSON array
  --close ID   ends a login at once, with all that streams to it

Exit code: 0 done; 1 the daemon has no page, or there is no such login; 2 usage.
`,
  async run(argv, io) {
    const { values } = parseFlags(
      argv,
      {
        print: { type: 'boolean', default: false },
        list: { type: 'boolean', default: false },
        json: { type: 'boolean', default: false },
        close: { type: 'string' },
      },
      { min: 0, max: 0, usage: OPEN },
    )
    const home = homeOf(io.env)
    const daemon = daemonClient(home)
    if (values.close !== undefined) {
      await daemon.request('DELETE', `/v1/logins/${encodeURIComponent(values.close)}`)
      io.out(`${shown(values.close)}: ended\n`)
      return 0
    }
    if (values.list) {
      const logins = (await daemon.request('GET', '/v1/logins')) as LoginView[]
      io.out(values.json ? visibleJson(logins) : logins.map(lineOf).join('') || 'nobody is logged in\n')
      return 0
    }
    const { url } = (await daemon.request('POST', '/v1/open')) as { readonly url: string }
    const opener = values.print ? undefined : openerOf(io.env)
    if (opener === undefined) io.out(`${url}\n`)
    else if (await openByFile(home, url, opener, io)) io.out('the page is open in the browser\n')
    else io.out(`no browser could be started: open it yourself, within a minute\n${url}\n`)
    return 0
  },
}

function lineOf({ id, createdAt, usedAt, browser }: LoginView): string {
  return `${[id, new Date(createdAt).toISOString(), new Date(usedAt).toISOString(), shown(browser)].join('  ')}\n`
}

function openerOf(env: Io['env']): string | undefined {
  if (process.platform === 'darwin') return '/usr/bin/open'
  return env['DISPLAY'] || env['WAYLAND_DISPLAY'] ? 'xdg-open' : undefined
}

/** A page that leads on to the link. What stays of it is worth nothing when the link was used, or its minute is over. */
async function openByFile(home: string, url: string, opener: string, io: Io): Promise<boolean> {
  const file = join(home, 'open.html')
  const page = `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>Sallyport</title><script>location.replace(${JSON.stringify(url)})</script>`
  await replacePrivateFile(file, page, system)
  const child = spawn(opener, [file], { stdio: 'ignore', detached: true, env: io.env })
  child.unref()
  try {
    await once(child, 'spawn')
    return true
  } catch {
    return false
  }
}
