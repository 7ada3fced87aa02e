import type { AppliedSecrets } from '../../wire/secrets.ts'
import { Badge } from '../parts/badge.tsx'
import { Button } from '../parts/button.tsx'
import { Exact, Name } from '../parts/exact.tsx'
import { hrefOf } from '../shell/route.ts'

/** What became of the secrets of now in each session that runs. */
export function AppliedNote({ applied: { applied, failed }, onClose }: { applied: AppliedSecrets; onClose: () => void }) {
  return (
    <section class={`note ${failed.length === 0 ? 'note-ok' : 'note-warn'} vault-applied`} role="status" aria-label="Applied to sessions">
      <div class="grow">
        {applied.length + failed.length === 0 && <p>No session runs: the next one starts with the secrets as they are now.</p>}
        <ul>
          {applied.map(({ session, name }) => (
            <li key={session} class="row">
              <Badge tone="ok">has them</Badge>
              <a href={hrefOf('sessions', [session])}>
                <Name text={name} />
              </a>
            </li>
          ))}
          {failed.map(({ session, name, code, detail }) => (
            <li key={session}>
              <div class="row">
                <Badge tone="bad">keeps what it had</Badge>
                <a href={hrefOf('sessions', [session])}>
                  <Name text={name} />
                </a>
                <code>{code}</code>
              </div>
              <p class="small">
                <Exact text={detail} />
              </p>
            </li>
          ))}
        </ul>
      </div>
      <Button kind="plain" onPress={onClose} aria-label="take this away">
        ×
      </Button>
    </section>
  )
}
