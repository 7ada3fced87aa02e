import { codeOf, SallyportError } from '../../kernel/errors.ts'

/** One question to the engine. What is asked goes in the body: a query would be in the engine's log. */
export type Call = {
  readonly method?: 'GET' | 'HEAD' | 'POST' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: unknown
  readonly signal?: AbortSignal
  readonly stream?: 'read' | 'both'
  /** A question that takes as long as it takes. */
  readonly isLong?: boolean
}
export type Caller = (call: Call) => Promise<unknown>

/** What dockerode throws, with a code of ours. The engine's own words are kept: they name the program that is missing, the subnet that overlaps. */
export function translated(error: unknown, question: string): SallyportError {
  const { statusCode, json } = error as { statusCode?: number; json?: { message?: string } | null }
  if (statusCode === undefined) {
    const hint =
      codeOf(error) === 'EACCES'
        ? 'you may not use its socket: be in its group, or use a rootless engine'
        : 'is the Docker Engine running, and may you use it? "docker version" must show a Server'
    return new SallyportError('engine_unavailable', `the Docker Engine does not answer (${codeOf(error)})`, { hint, cause: error })
  }
  const said = (json?.message ?? (error instanceof Error ? error.message.replace(/^\(HTTP code \d+\) [^-]*- /, '') : String(error))).trim()
  return new EngineRefusal(
    statusCode,
    `the engine refused ${question.replaceAll(/[0-9a-f]{64}/g, (id) => id.slice(0, 12))}: ${said}`,
    error,
  )
}

/** `engine_refused`, with the number that the engine gave. */
class EngineRefusal extends SallyportError {
  readonly status: number

  constructor(status: number, message: string, cause: unknown) {
    super('engine_refused', message, { cause })
    this.status = status
  }
}

/** `undefined` for what is not there, or for these answers. */
export async function orNothing(answer: Promise<unknown>, ...statuses: number[]): Promise<unknown> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof EngineRefusal && [404, ...statuses].includes(error.status)) return undefined
    throw error
  }
}

/** Whether a network could not be made because its subnet is in use. */
export function isOverlap(error: unknown): boolean {
  return error instanceof EngineRefusal && /overlaps with other one|invalid pool request/i.test(error.message)
}

/** Whether a container could not be taken off a network because it is on none of that name. */
export function isNotConnected(error: unknown): boolean {
  return error instanceof EngineRefusal && /is not connected to/i.test(error.message)
}

/** As the engine writes labels and variables. */
export function pairs(values: Readonly<Record<string, string>>): string[] {
  return Object.entries(values).map(([name, value]) => `${name}=${value}`)
}
