import type { Problem } from '../api/client.ts'

/** What failed, with its code, and what to do. */
export function ProblemNote({ problem }: { problem: Problem }) {
  return (
    <div class="note note-bad" role="alert">
      <p>
        <code>{problem.code}</code> {problem.message}
      </p>
      {problem.hint !== undefined && <p class="quiet">{problem.hint}</p>}
    </div>
  )
}

ProblemNote.textOf = ({ code, message, hint }: Problem): string => `${code}: ${message}${hint === undefined ? '' : ` (${hint})`}`
