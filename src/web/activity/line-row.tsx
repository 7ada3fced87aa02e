import type { ActivityLine } from '../../wire/activity.ts'
import { Badge } from '../parts/badge.tsx'
import { Name } from '../parts/exact.tsx'
import { bytes, duration } from '../parts/time.tsx'
import { clockOf, DECISIONS, kindOf, nameOfSession, outcomeOf, placeOf } from './words.ts'

/** One line, as a row of a table or, where it is narrow, as a card of two lines. */
export function LineRow({ line, isOpen }: { line: ActivityLine; isOpen: boolean }) {
  const { word, tone } = DECISIONS[line.decision]
  const method = line.method ?? ''
  return (
    <div class={`activity-row${isOpen ? ' activity-row-open' : ''}`}>
      <span class="activity-time">{clockOf(line.at)}</span>
      <span class="activity-decision">
        <Badge tone={tone}>{line.decision !== 'ask' && line.isAsked === true ? `${word}, asked` : word}</Badge>
      </span>
      <span class="activity-kind quiet">{kindOf(line)}</span>
      <span class="activity-what mono">
        {method !== '' && (
          <>
            <Name text={method} />{' '}
          </>
        )}
        <b>
          <Name text={placeOf(line)} />
        </b>
        {line.path !== undefined && <Name text={line.lane === 'mcp' ? ` ${line.path}` : line.path} />}
      </span>
      <span class="activity-session quiet">
        <Name text={nameOfSession(line.session)} />
      </span>
      <span class="activity-credentials">{line.credentials.length > 0 && <Name text={line.credentials.join(', ')} />}</span>
      <span class="activity-outcome">{outcomeOf(line)}</span>
      <span class="activity-bytes quiet">
        {line.bytesDown !== undefined && (
          <>
            ↑{bytes(line.bytesUp ?? 0)} ↓{bytes(line.bytesDown)}
          </>
        )}
      </span>
      <span class="activity-duration quiet">{line.durationMs !== undefined && duration(line.durationMs)}</span>
    </div>
  )
}
