import type { Engine } from '../../src/controller/sessions/engine.ts'
import { Secret } from '../../src/kernel/secret.ts'
import { openSessions } from './controller-sessions.ts'

/**
 * A controller that takes over the session of its home, or begins one, starts a container beside its agent and dies without a word
 * (SIGKILL): around the first call of a verb of the engine meanwhile (`VERB:before`, `VERB:after`), or once it runs (`running`).
 */
const [, , home = '', death = ''] = process.argv
const [verb, when] = death.split(':')
let isArmed = false

function die(): never {
  process.kill(process.pid, 'SIGKILL')
  throw new Error('unreachable')
}

function deadly(engine: Engine): Engine {
  return new Proxy(engine, {
    get(target, name: keyof Engine) {
      const real = target[name] as (...args: unknown[]) => unknown
      if (name !== verb) return real
      return async (...args: unknown[]) => {
        const isIt = isArmed
        isArmed = false
        if (isIt && when === 'before') {
          // Asked for, and the answer never seen.
          void real(...args)
          await new Promise((resolve) => setTimeout(resolve, 5))
          die()
        }
        const result = await real(...args)
        if (isIt) die()
        return result
      }
    },
  })
}

const under = await openSessions({
  home,
  engine: deadly,
  plan: (plan) => ({ ...plan, filesystem: { ...plan.filesystem, hide: ['.env'] } }),
})
const stop = new AbortController().signal
await under.sessions.adopt(stop)
if (under.sessions.list().length === 0) await under.up({ name: 'child' })
isArmed = true
const wish = {
  kind: 'use',
  label: 'dies',
  argv: ['sleep', '600'],
  environment: {},
  values: { KEY: new Secret('key', 'a value of nobody') },
  stdin: 'closed',
  workspace: 'ro',
  pinned: [{ target: '/sallyport/pinned/a', content: Buffer.from('a'), executable: false }],
} as const
await under.sessions.startSibling('child', wish, stop)
if (death === 'running') die()
process.stdout.write('it lived\n')
process.exit(1)
