import type { ProblemView } from '../../wire/policies.ts'
import { Badge } from '../parts/badge.tsx'
import { Exact, Name } from '../parts/exact.tsx'

/** What is wrong with a policy, a line each, worst first. */
export function ProblemList({ problems, file }: { problems: readonly ProblemView[]; /** The one that is looked at. */ file?: string }) {
  if (problems.length === 0) return null
  return (
    <ul class="policies-problems" aria-label="Problems">
      {problems
        .toSorted((a, b) => Number(a.severity === 'warning') - Number(b.severity === 'warning') || a.line - b.line)
        .map((one) => (
          <li key={`${one.severity} ${one.file}:${one.line}:${one.column} ${one.message}`}>
            <Badge tone={one.severity === 'error' ? 'bad' : 'warn'}>{one.severity}</Badge>
            <span>
              <code>{placeOf(one, file)}</code> <Exact text={one.message} />
              {one.sessions !== undefined && (
                <span class="quiet">
                  {' '}
                  in <Name text={one.sessions.join(', ')} />
                </span>
              )}
            </span>
          </li>
        ))}
    </ul>
  )
}

function placeOf({ file, line }: ProblemView, own: string | undefined) {
  if (file === own && line > 0) return `line ${line}`
  return <Exact text={line > 0 ? `${file}:${line}` : file} />
}
