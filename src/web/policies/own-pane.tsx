import { useState } from 'preact/hooks'
import type { OwnPolicyView } from '../../wire/policies.ts'
import { call } from '../api/client.ts'
import { Badge } from '../parts/badge.tsx'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Exact, Name } from '../parts/exact.tsx'
import { notify } from '../parts/notices.tsx'
import { act } from '../presence/act.ts'
import { Editor } from './editor.tsx'
import { ProblemList } from './problem-list.tsx'

const unchanged = (): void => undefined

/** What a workspace brings itself: its agent can write it. It is read here and accepted, and never written. */
export function OwnPane({ own, onChanged }: { own: OwnPolicyView; onChanged: () => void }) {
  const { workspace, file, text, problem, isTrusted, errors, allows } = own
  const [isAsking, setAsking] = useState(false)
  const withdraw = async (): Promise<void> => {
    await call('POST', '/v1/policies/trust/withdraw', { workspace })
    notify('it is no longer accepted')
    onChanged()
  }
  return (
    <section class="card stack" aria-label="File">
      <div>
        <h2>
          <Name text={file} />
        </h2>
        <p>
          <Badge tone={isTrusted ? 'ok' : 'warn'}>{isTrusted ? 'trusted, as it is' : 'may only deny or ask'}</Badge>{' '}
          <span class="small quiet">An agent that works there can change it: after any change it is not trusted.</span>
        </p>
      </div>
      {problem !== undefined && (
        <p class="note note-bad">
          <Exact text={problem} />
        </p>
      )}
      {text !== undefined && <Editor value={text} onChange={unchanged} language="yaml" label="The workspace’s own policy" readOnly />}
      <ProblemList problems={errors} file={file} />
      {allows.length > 0 && (
        <div class="note note-warn stack">
          <h3>{isTrusted ? 'Beyond denials and questions it says' : 'No session starts while it says, untrusted'}</h3>
          <ul>
            {allows.map(({ line, message }) => (
              <li key={`${line} ${message}`}>
                line {line}: <Exact text={message} />
              </li>
            ))}
          </ul>
        </div>
      )}
      {text !== undefined && (
        <div class="row">
          {isTrusted ? (
            <Button kind="bad" onPress={withdraw}>
              Trust it no longer
            </Button>
          ) : (
            <Button disabled={errors.length > 0} onPress={() => setAsking(true)}>
              Trust it as it is …
            </Button>
          )}
        </div>
      )}
      {isAsking && (
        <Accept
          own={own}
          onClose={() => setAsking(false)}
          onDone={() => {
            setAsking(false)
            onChanged()
          }}
        />
      )}
    </section>
  )
}

function Accept({
  own: { workspace, file, digest = '', allows },
  onClose,
  onDone,
}: {
  own: OwnPolicyView
  onClose: () => void
  onDone: () => void
}) {
  const accept = async (): Promise<void> => {
    await act('POST', '/v1/policies/trust', { workspace, digest }, `trust ${file} as it is`)
    notify('accepted, exactly as it is')
    onDone()
  }
  return (
    <Dialog title="Trust this policy as it is?" onClose={onClose}>
      <p>
        It becomes a layer like yours for every session in <Name text={workspace} />, and may allow. What you accept is this content to the
        byte.
      </p>
      <dl class="facts">
        <dt>file</dt>
        <dd>
          <Name text={file} />
        </dd>
        <dt>SHA-256</dt>
        <dd>
          <code>{digest}</code>
        </dd>
        <dt>it would allow</dt>
        <dd>{allows.length === 0 ? 'nothing: it only denies and asks' : `${allows.length} things, listed beside it`}</dd>
      </dl>
      <div class="dialog-foot">
        <Button onPress={onClose}>Cancel</Button>
        <Button kind="bad" onPress={accept}>
          Trust it
        </Button>
      </div>
    </Dialog>
  )
}
