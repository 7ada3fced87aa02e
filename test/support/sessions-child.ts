import type { Engine } from '../../src/controller/sessions/engine.ts'
import { openSessions } from './controller-sessions.ts'

/**
 * A controller that dies without a word (SIGKILL) in the middle of `up`: `step:NAME` when that step is recorded and nothing of it done,
 * `verb:NAME:N:before|after` around the Nth call of a verb of the engine. Else, `up`, it lives on until it is killed.
 */
const [, , home = '', death = ''] = process.argv
const [kind, name, number, when] = death.split(':')
let calls = 0

function die(): never {
  process.kill(process.pid, 'SIGKILL')
  throw new Error('unreachable')
}

function deadly(engine: Engine): Engine {
  return new Proxy(engine, {
    get(target, verb: keyof Engine) {
      const real = target[verb] as (...args: unknown[]) => unknown
      return async (...args: unknown[]) => {
        const isIt = kind === 'verb' && verb === name && (calls += 1) === Number(number)
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
  engine: (engine) =>
    new Proxy(deadly(engine), {
      get: (wrapped, verb: keyof Engine) => (verb === 'logs' || verb === 'events' ? engine[verb] : wrapped[verb]),
    }),
})
const view = await under.sessions.up(under.request({ name: 'child' }), new AbortController().signal, (step) => {
  if (kind === 'step' && step === name) die()
})
process.stdout.write(`${JSON.stringify(view)}\n`)
setInterval(() => {}, 60_000)
