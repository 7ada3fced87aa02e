import { Button } from '../parts/button.tsx'
import { Exact, Name } from '../parts/exact.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { bytes } from '../parts/time.tsx'
import { hrefOf } from '../shell/route.ts'
import { startRun } from './start-run.ts'

/** What can be mended there. */
const VAULT_CODES: ReadonlySet<string> = new Set([
  'secret_missing',
  'secret_unavailable',
  'secret_not_permitted',
  'vault_locked',
  'vault_key_wrong',
])

/** How the session that this tab starts comes up. */
export function Starting() {
  const run = startRun.value
  if (run === undefined) return null
  const { request, steps, pulls, problem, cancel } = run
  return (
    <section class="card stack" aria-label="Session on its way up">
      <div class="row">
        <h2 class="grow">
          {problem === undefined ? 'Starting' : 'Could not start'} <Name text={request.name ?? request.workspace} />
        </h2>
        {problem === undefined ? (
          <Button kind="bad" onPress={cancel}>
            Cancel
          </Button>
        ) : (
          <Button onPress={() => (startRun.value = undefined)}>Dismiss</Button>
        )}
      </div>
      <ol class="session-steps" aria-live="polite">
        {steps.map((step, index) => (
          <li key={index} class={index < steps.length - 1 ? 'quiet' : ''}>
            <Exact text={step} />
          </li>
        ))}
      </ol>
      {Object.values(pulls)
        .filter(({ isDone }) => !isDone)
        .map(({ image, layers, layersDone, doneBytes, totalBytes }) => (
          <p key={image} class="small">
            fetching <Name text={image} />: {layersDone} of {layers} layers, {bytes(doneBytes)} of {bytes(totalBytes)}
          </p>
        ))}
      {problem === undefined ? (
        <p class="small quiet">Cancelled, or with this tab closed, it is undone: nothing of it is left.</p>
      ) : (
        <>
          <ProblemNote problem={problem} />
          <p class="small quiet">
            Nothing of it is left.
            {VAULT_CODES.has(problem.code) && (
              <>
                {' '}
                <a href={hrefOf('vault')}>Look into the vault</a>; this form stays as it is.
              </>
            )}
          </p>
        </>
      )}
    </section>
  )
}
