import type { FileProblem } from '../../wire/servers.ts'
import { Badge } from '../parts/badge.tsx'
import { Exact } from '../parts/exact.tsx'

/** What is wrong with mcp.json, a line each; `onPlace` makes the places buttons. */
export function FileProblems(props: { problems: readonly FileProblem[]; onPlace?: (problem: FileProblem) => void }) {
  if (props.problems.length === 0) return null
  return (
    <ul class="servers-problems" aria-label="Problems">
      {props.problems.map((problem) => (
        <li key={`${problem.line} ${problem.column} ${problem.message}`}>
          <Badge tone={problem.severity === 'error' ? 'bad' : 'warn'}>{problem.severity}</Badge>{' '}
          {props.onPlace === undefined ? (
            <span class="quiet">{placeOf(problem)}</span>
          ) : (
            <button type="button" class="button button-plain" onClick={() => props.onPlace?.(problem)}>
              {placeOf(problem)}
            </button>
          )}{' '}
          <Exact text={problem.message} />
        </li>
      ))}
    </ul>
  )
}

function placeOf({ line, column }: FileProblem): string {
  return `line ${line}, column ${column}`
}
