import { useState } from 'preact/hooks'
import type { PlanView } from '../../wire/first-run.ts'
import { call, Problem } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { Exact, Name } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { act } from '../presence/act.ts'
import { hrefOf } from '../shell/route.ts'

/** A workspace that is ready, and the harness that its files told or somebody chose. */
export type Ready = { readonly workspace: string; readonly harness: string | undefined }

/** The policy for a folder: what its files tell, the text that comes of it, and where that goes. Nothing is written before it was seen. */
export function WorkspacePolicy({ harnesses, onReady }: { harnesses: readonly string[]; onReady: (ready: Ready | undefined) => void }) {
  const [workspace, setWorkspace] = useState('')
  const [harness, setHarness] = useState('')
  const [plan, setPlan] = useState<PlanView | undefined>()
  const [problem, setProblem] = useState<Problem | undefined>()
  const wish = { workspace: workspace.trim(), ...(harness !== '' && { harness }) }
  const change = (): void => {
    setPlan(undefined)
    setProblem(undefined)
    onReady(undefined)
  }
  const look = async (): Promise<void> => {
    change()
    try {
      setPlan(await call<PlanView>('POST', '/v1/start/plan', wish))
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      setProblem(error)
    }
  }
  const taken = (ready: Ready | undefined): void => {
    setProblem(undefined)
    onReady(ready)
  }
  /** What was looked at is not what would be written any more: what would be is shown, with the reason. */
  const lookAgain = async (error: Problem): Promise<void> => {
    await look()
    setProblem((before) => before ?? error)
  }
  return (
    <div class="stack">
      <form class="start-form" aria-label="Workspace" onSubmit={(event) => (event.preventDefault(), void look())}>
        <Field
          label="Folder of the project"
          hint="The agent works in it and sees nothing else of this machine. The whole path, as /home/you/project."
          control={(attributes) => (
            <input
              {...attributes}
              class="input mono"
              required
              spellcheck={false}
              autocomplete="off"
              value={workspace}
              onInput={(event) => (setWorkspace(event.currentTarget.value), change())}
            />
          )}
        />
        <Field
          label="Harness"
          hint="The program that is the agent."
          control={(attributes) => (
            <select {...attributes} class="input" value={harness} onChange={(event) => (setHarness(event.currentTarget.value), change())}>
              <option value="">as the files tell, else none</option>
              <option value="plain">none: a shell</option>
              {harnesses.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          )}
        />
        <Button kind={plan === undefined ? 'main' : 'plain'} onPress={look} disabled={wish.workspace === ''}>
          Look at the folder
        </Button>
      </form>
      {problem !== undefined && <ProblemNote problem={problem} />}
      {plan !== undefined && <Plan key={plan.digest} plan={plan} wish={wish} onReady={taken} onRefused={lookAgain} />}
    </div>
  )
}

type Wish = { readonly workspace: string; readonly harness?: string }

type PlanProps = {
  readonly plan: PlanView
  readonly wish: Wish
  readonly onReady: (ready: Ready | undefined) => void
  readonly onRefused: (problem: Problem) => Promise<void>
}

function Plan({ plan, wish, onReady, onRefused }: PlanProps) {
  const [done, setDone] = useState('')
  const ready = (words: string): void => {
    setDone(words)
    onReady({ workspace: plan.workspace, harness: plan.harness ?? undefined })
  }
  const write = async (replace: boolean): Promise<void> => {
    const { digest, workspace } = plan
    const body = { ...wish, digest, replace }
    const written = await act<{ readonly kept?: string }>('POST', '/v1/start/policy', body, `write the policy of ${workspace}`).catch(
      (error: unknown) => {
        if (!(error instanceof Problem)) throw error
        return onRefused(error)
      },
    )
    if (written === undefined) return
    ready(written.kept === undefined ? 'Written.' : `Written; the one before is kept as ${written.kept}.`)
  }
  const { before } = plan
  return (
    <div class="stack">
      <Facts plan={plan} />
      <details open>
        <summary>The policy that is written: it begins with nothing allowed, and says in comments what each part lets through</summary>
        <pre class="start-text" tabIndex={0} aria-label="text of the policy">
          <Exact text={plan.text} />
        </pre>
      </details>
      {before.state === 'other' && done === '' && (
        <div class="note note-warn stack">
          <p>
            There is a policy for this folder already, and it is another one. It is left alone unless you replace it; then it is kept
            beside.
          </p>
          <details>
            <summary>The policy that is there</summary>
            <pre class="start-text" tabIndex={0} aria-label="text of the policy that is there">
              <Exact text={before.text} />
            </pre>
          </details>
        </div>
      )}
      <div class="row">
        {done === '' && before.state === 'none' && (
          <Button kind="main" onPress={() => write(false)}>
            Write this policy
          </Button>
        )}
        {done === '' && before.state === 'other' && (
          <>
            <Button kind="main" onPress={() => ready('The policy that is there stays.')}>
              Keep the one that is there
            </Button>
            <Button kind="bad" onPress={() => write(true)}>
              Replace it
            </Button>
          </>
        )}
        {done === '' && before.state === 'same' && (
          <Button kind="main" onPress={() => ready('It is there already.')}>
            Go on with it
          </Button>
        )}
        <p role="status">
          <Exact text={done} />
        </p>
      </div>
    </div>
  )
}

function Facts({ plan: { workspace, kinds, gitHost, harness, secrets, file, isCut } }: { plan: PlanView }) {
  return (
    <dl class="facts">
      <dt>Folder</dt>
      <dd class="mono">
        <Name text={workspace} />
      </dd>
      <dt>Found</dt>
      <dd>
        {kinds.length === 0 && 'no language that there is a preset for'}
        {kinds.map(({ what, evidence }) => (
          <p key={what}>
            {what} <span class="quiet">by</span> <Exact text={evidence.join(', ')} />
          </p>
        ))}
        {isCut && <p class="quiet">The folder is large: not all of it was looked at.</p>}
      </dd>
      <dt>Git</dt>
      <dd>{gitHost === null ? 'no remote with a host' : <Exact text={gitHost} />}</dd>
      <dt>Harness</dt>
      <dd>{harness === null ? 'none: a shell with the tools of the image' : <Name text={harness} />}</dd>
      {secrets.length > 0 && (
        <>
          <dt>Secrets</dt>
          <dd>
            {secrets.map((name) => (
              <code key={name} class="start-secret">
                {name}
              </code>
            ))}
            <p class="quiet">
              <a href={hrefOf('vault')}>Add them to the vault</a>: the agent never sees their values.
            </p>
          </dd>
        </>
      )}
      <dt>Written to</dt>
      <dd class="mono">
        <Name text={file} />
      </dd>
    </dl>
  )
}
