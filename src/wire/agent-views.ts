import * as z from 'zod'

const Status = z.enum(['pending', 'running', 'done', 'denied', 'expired', 'cancelled', 'failed'])
export type RequestStatus = z.infer<typeof Status>

/** A request of an agent's, as it sees it. Output is redacted; what was left out of it is said in it. */
export const RequestView = z.strictObject({
  id: z.string(),
  method: z.string(),
  status: Status.describe('"pending": a person is asked. "running": it runs. All others are final.'),
  exit_code: z.int().exactOptional(),
  signal: z.string().exactOptional().describe('The signal that ended the command.'),
  stdout: z.string().exactOptional(),
  stderr: z.string().exactOptional(),
  truncated: z.boolean().exactOptional().describe('Something of the output was left out.'),
  handle: z
    .string()
    .exactOptional()
    .describe('Stands for the secret that was asked for: write ${HANDLE} where secret.use_in takes a template.'),
  expires_in: z.number().exactOptional().describe('Seconds that the handle is good for.'),
  files: z
    .array(
      z.strictObject({
        name: z.string(),
        bytes: z.int(),
        withheld: z.literal(true).exactOptional().describe('It holds a secret, and is not shown.'),
      }),
    )
    .exactOptional()
    .describe('What the command left in /output. It is in /sallyport/output/ID.'),
  note: z.string().exactOptional().describe('While it waits: what it waits for.'),
  error: z
    .strictObject({ code: z.string(), message: z.string(), hint: z.string().exactOptional() })
    .exactOptional()
    .describe('Why it did not run, or did not end well.'),
})
export type RequestView = Readonly<z.infer<typeof RequestView>>

export const OutputPiece = z.strictObject({ stream: z.enum(['stdout', 'stderr']), text: z.string() })
export type OutputPiece = Readonly<z.infer<typeof OutputPiece>>

/** Pieces `after` to `next` of what a request printed. `isEnded`: no more comes. */
export const OutputView = z.strictObject({
  pieces: z.array(OutputPiece),
  next: z.int().describe('What `after` is to be in the next call.'),
  lost: z.boolean().describe('Pieces before these are not kept any more.'),
  isEnded: z.boolean().describe('No more comes.'),
})
export type OutputView = Readonly<z.infer<typeof OutputView>>
