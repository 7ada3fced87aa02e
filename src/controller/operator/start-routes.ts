import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import type { Audit } from '../../audit/audit.ts'
import { codeOf, SallyportError } from '../../kernel/errors.ts'
import type { System } from '../../kernel/system.ts'
import { PlanRequest, PolicyRequest, type PlanView, type StartView } from '../../wire/first-run.ts'
import { doctorParts, examine } from '../doctor/doctor.ts'
import { oneDoctorRun } from '../doctor/one-run.ts'
import { planInit, writeInit, type InitPlan } from '../init/init.ts'
import { HARNESS_NAMES } from '../sessions/harness.ts'
import { contentDigest } from '../sessions/workspace-trust.ts'
import type { StateFile } from '../state.ts'
import { inLines } from './line-answers.ts'
import { read } from './session-routes.ts'

export type StartParts = {
  /** `$SALLYPORT_HOME`, the folder of the installation, and the daemon's environment. */
  readonly place: {
    readonly home: string
    readonly packageRoot: string
    readonly environment: Readonly<Record<string, string | undefined>>
  }
  readonly state: Pick<StateFile, 'live' | 'leases'>
  readonly audit: Pick<Audit, 'append'>
  readonly system: System
  readonly signal: AbortSignal
}

/** What leads to a first session: the doctor's look at this machine, and the policy for a workspace that `init` writes. */
export function addStartRoutes(app: FastifyInstance, { place, state, audit, system, signal }: StartParts): void {
  const setting = { home: place.home, policyDirs: [join(place.packageRoot, 'policies'), join(place.home, 'policies')] }
  const follow = oneDoctorRun((until, tell) => examine(doctorParts({ ...place, system }), until, tell), signal)
  app.get('/v1/doctor', (_request, reply) =>
    inLines(reply, async (say, gone) => ({ rows: await follow((row) => void say({ row }), gone) })),
  )
  app.get('/v1/start', (): StartView => ({
    isFirst: state.live().length === 0 && state.leases().length === 0,
    harnesses: HARNESS_NAMES.filter((name) => name !== 'plain'),
  }))
  app.post('/v1/start/plan', ({ body }) => {
    const { workspace, harness } = read(PlanRequest, body)
    return viewOf(planInit({ workspace, harness, force: false }, setting))
  })
  app.post('/v1/start/policy', async ({ body }) => {
    const { workspace, harness, digest, replace } = read(PolicyRequest, body)
    const plan = planInit({ workspace, harness, force: replace }, setting)
    // The workspace is the agent's: its files may have changed since the text was shown.
    if (digestOf(plan.text) !== digest)
      throw new SallyportError('policy_invalid', `the policy for ${plan.workspace} would not be what was shown: nothing was written`, {
        hint: 'files of the folder have changed meanwhile: look at the text that comes of them now',
      })
    const { state: found } = beforeOf(plan.file, plan.text)
    // Before it is made, as every change: what could not be recorded is not.
    if (found === 'none' || (found === 'other' && replace))
      await audit.append({
        event: 'config_changed',
        of: 'policy',
        what: plan.file,
        did: 'written',
        digest: contentDigest(plan.text),
        by: 'the page',
      })
    const { kept, isSame } = writeInit(plan, replace, setting)
    return { file: plan.file, isSame, ...(kept !== undefined && { kept }) }
  })
}

function viewOf({ workspace, file, text, secrets, detected, harness }: InitPlan): PlanView {
  return {
    workspace,
    file,
    text,
    digest: digestOf(text),
    before: beforeOf(file, text),
    kinds: detected.kinds.map(({ kind, evidence }) => ({ what: kind.what, evidence })),
    gitHost: detected.gitHost ?? null,
    harness: harness ?? null,
    secrets: [...new Set(secrets)],
    isCut: detected.isCut,
  }
}

function beforeOf(file: string, text: string): PlanView['before'] {
  try {
    const before = readFileSync(file, 'utf8')
    return before === text ? { state: 'same' } : { state: 'other', text: before }
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return { state: 'none' }
    throw error
  }
}

function digestOf(text: string): string {
  return hash('sha256', text, 'hex')
}
