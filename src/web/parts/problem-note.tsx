import type { Problem } from '../api/client.ts'
import { Exact } from './exact.tsx'

/** What failed, with its code, and what to do. Others have words in it: names, paths, lines of files. */
export function ProblemNote({ problem }: { problem: Problem }) {
  return (
    <div class="note note-bad" role="alert">
      <p>
        <code>{problem.code}</code> <Exact text={problem.message} />
      </p>
      {problem.hint !== undefined && (
        <p class="quiet">
          <Exact text={problem.hint} />
        </p>
      )}
    </div>
  )
}

ProblemNote.textOf = ({ code, message, hint }: Problem): string => `${code}: ${message}${hint === undefined ? '' : ` (${hint})`}`
