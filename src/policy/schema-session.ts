import * as z from 'zod'
import { LIMITS } from '../kernel/limits.ts'
import { complaint, list, text } from './schema-fields.ts'
import { hideProblem, hostPathProblem, imageProblem, parseCpus, parseMemory, parseUser } from './session-values.ts'

/** What the agent sees of the workspace. */
export const Filesystem = z.strictObject({
  workspace: z.enum(['rw', 'ro', 'none']).optional().describe('How the agent has the workspace. Default: rw.'),
  hide: list(text(hideProblem), LIMITS.hiddenPatternsMax)
    .optional()
    .describe('Files and folders of the workspace that are empty for the agent: "*" within a name, "**" for any folders.'),
  git_metadata: z
    .enum(['protected', 'writable'])
    .optional()
    .describe('Whether the agent may change what decides what git executes. Default: protected.'),
})

/** What the agent's container is made of. */
export const Session = z.strictObject({
  image: text(imageProblem).optional().describe('The image of the agent.'),
  memory: text(complaint(parseMemory)).optional().describe('"512m" or "4g".'),
  cpus: z
    .union([z.int().min(1).max(LIMITS.sessionCpusMax), text(complaint(parseCpus))])
    .optional()
    .describe('Processors, as 2 or "1.5".'),
  pids: z.int().min(LIMITS.sessionPidsMin).max(LIMITS.sessionPidsMax).optional().describe('Processes and threads at the same time.'),
  runtime: text((value) =>
    /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(value)
      ? undefined
      : `runtime "${value}" must be the name of a runtime of the engine, as "runc" or "runsc"`,
  )
    .optional()
    .describe('A runtime that the engine knows. Default: its own.'),
  user: text(complaint(parseUser)).optional().describe('operator (default), root or "UID:GID".'),
  seccomp: text(hostPathProblem('seccomp'))
    .optional()
    .describe("Absolute path of a seccomp profile on the host. Default: the engine's own."),
})
