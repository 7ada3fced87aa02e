import type { Tier } from '../../wire/question.ts'
import { Badge } from '../parts/badge.tsx'

const LEVELS: readonly { readonly tier: Tier; readonly proof: string; readonly against: string }[] = [
  {
    tier: 'T0',
    proof: 'a click or a key',
    against: 'Good against agents: no path of theirs leads to this page or to the daemon’s socket.',
  },
  { tier: 'T1', proof: 'the password', against: 'Good against another program of yours that got hold of this page or of the socket.' },
  {
    tier: 'T2',
    proof: 'the operating system asks you',
    against: 'Good against a program that also watched the password being typed. It works in a terminal, with sallyport approve.',
  },
  {
    tier: 'T3',
    proof: 'a passkey that verifies you',
    against: 'Good against a program that can draw and type anything: the authenticator signs this one answer, and nothing else.',
  },
]

/** What the levels mean, and which could be proven now. */
export function Levels({ available }: { available: readonly Tier[] | undefined }) {
  return (
    <section class="card stack" aria-labelledby="presence-levels">
      <h2 id="presence-levels">Levels of presence</h2>
      <p class="quiet">
        The policy says how much an answer needs by its risk. A higher level is good for a lower one. A denial needs none.
      </p>
      <ul class="presence-list">
        {LEVELS.map(({ tier, proof, against }) => (
          <li key={tier} class="presence-item">
            <div class="grow">
              <h3>
                {tier}: {proof}
              </h3>
              <p class="quiet">{against}</p>
            </div>
            {available !== undefined && (
              <Badge tone={available.includes(tier) ? 'ok' : 'quiet'}>{available.includes(tier) ? 'can be proven' : 'not set up'}</Badge>
            )}
          </li>
        ))}
      </ul>
    </section>
  )
}
