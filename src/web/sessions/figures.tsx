import type { SessionStats } from '../../wire/session-facts.ts'
import { bytes } from '../parts/time.tsx'
import { stats } from './stats.ts'

type Figures = SessionStats[string]

/** What a session's agent uses now. Nothing for one that is not counted. */
export function SessionFigures({ session }: { session: string }) {
  const figures = stats.value[session]
  if (figures === undefined) return null
  return (
    <dl class="session-figures">
      {figuresOf(figures).map(({ name, text, share }) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
          {share !== undefined && (
            <dd class="session-bar" aria-hidden="true">
              <span style={{ inlineSize: `${Math.min(100, share * 100)}%` }} />
            </dd>
          )}
        </div>
      ))}
    </dl>
  )
}

function figuresOf({ cpuPercent, memoryBytes, memoryBytesMax, pids, pidsMax, requestsPerMinute }: Figures) {
  return [
    { name: 'CPU', text: cpuPercent === null ? '…' : `${cpuPercent.toFixed(1)} %`, share: (cpuPercent ?? 0) / 100 },
    {
      name: 'Memory',
      text: memoryBytesMax > 0 ? `${bytes(memoryBytes)} of ${bytes(memoryBytesMax)}` : bytes(memoryBytes),
      share: memoryBytesMax > 0 ? memoryBytes / memoryBytesMax : 0,
    },
    { name: 'Processes', text: pidsMax > 0 ? `${pids} of ${pidsMax}` : String(pids), share: pidsMax > 0 ? pids / pidsMax : 0 },
    { name: 'Requests / min', text: String(requestsPerMinute), share: undefined },
  ]
}
