import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { StartView } from '../../wire/first-run.ts'
import type { Tier } from '../../wire/question.ts'
import { ProblemNote } from '../parts/problem-note.tsx'
import { useResource } from '../parts/use-resource.ts'
import { ViewHead } from '../parts/view-head.tsx'
import { hrefOf } from '../shell/route.ts'
import { Doctor } from './doctor.tsx'
import { WorkspacePolicy, type Ready } from './workspace-policy.tsx'
import './start.css'

/** Three steps to a session that works. */
export function Start() {
  const start = useResource<StartView>('/v1/start')
  const approver = useResource<{ readonly available: readonly Tier[] }>('/v1/approver')
  const [ready, setReady] = useState<Ready | undefined>()
  const hasPassword = approver.value?.available.some((tier) => tier === 'T1' || tier === 'T3')
  return (
    <div class="start">
      <ViewHead title="Start" about="Three steps to an agent that works, and reaches nothing that you did not allow." />
      {start.problem !== undefined && <ProblemNote problem={start.problem} />}
      <ol class="stack start-steps">
        <Step number={1} title="This machine">
          <Doctor />
        </Step>
        <Step number={2} title="A folder and its policy">
          <WorkspacePolicy harnesses={start.value?.harnesses ?? []} onReady={setReady} />
        </Step>
        <Step number={3} title="The session">
          <div class="row">
            {ready === undefined ? (
              <p class="quiet">When the folder has a policy.</p>
            ) : (
              <a class="button button-main" href={hrefOf('sessions', ['new'], queryOf(ready))}>
                Choose the rest and start it
              </a>
            )}
          </div>
        </Step>
      </ol>
      <section class="card stack" aria-labelledby="start-also">
        <h2 id="start-also">Also worth a minute</h2>
        <ul class="stack">
          {hasPassword === false && (
            <li>
              <a href={hrefOf('settings')}>Set a password or a passkey</a>: then nobody who only finds this page open can allow what is
              dangerous.
            </li>
          )}
          <li>
            <a href={hrefOf('vault')}>Add a secret</a>: the gate writes it into the requests that your policy names, and the agent never
            sees it.
          </li>
        </ul>
      </section>
    </div>
  )
}

function Step({ number, title, children }: { number: number; title: string; children: ComponentChildren }) {
  return (
    <li class="card stack">
      <h2>
        <span class="start-number" aria-hidden="true">
          {number}
        </span>
        {title}
      </h2>
      {children}
    </li>
  )
}

function queryOf({ workspace, harness }: Ready): Record<string, string> {
  return { workspace, ...(harness !== undefined && { harness }) }
}
