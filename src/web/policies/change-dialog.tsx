import { useEffect, useState } from 'preact/hooks'
import type { ChangeDone, ChangePreview, LayerRef, PolicyEdit } from '../../wire/policies.ts'
import { call, Problem } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Diff } from '../parts/diff.tsx'
import { Exact, Name } from '../parts/exact.tsx'
import { notify } from '../parts/notices.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { Ago, At } from '../parts/time.tsx'
import { act } from '../presence/act.ts'
import { ProblemList } from './problem-list.tsx'
import './change-dialog.css'

/** Shows what a change of a policy would do, to the line, and makes exactly that where the operator says so. */
export function ChangeDialog(props: {
  readonly layer: LayerRef
  readonly edit: PolicyEdit
  /** It was made. */
  readonly onDone: (done: ChangeDone) => void
  readonly onClose: () => void
}) {
  const { layer, edit, onDone, onClose } = props
  const wish = JSON.stringify({ layer, edit })
  const [preview, setPreview] = useState<ChangePreview>()
  const [problem, setProblem] = useState<Problem>()
  const [round, setRound] = useState(0)
  useEffect(() => {
    const stop = new AbortController()
    call<ChangePreview>('POST', '/v1/policies/changes/preview', JSON.parse(wish), stop.signal).then(
      (found) => setPreview(found),
      (error: unknown) => {
        if (!stop.signal.aborted && error instanceof Problem) setProblem(error)
      },
    )
    return () => stop.abort()
  }, [wish, round])
  const look = (): void => {
    setPreview(undefined)
    setProblem(undefined)
    setRound(round + 1)
  }
  const apply = async ({ before, after, expiresAt, target }: ChangePreview): Promise<void> => {
    setProblem(undefined)
    try {
      const seen = { target, ...(before !== undefined && { before }), after, ...(expiresAt !== undefined && { expiresAt }) }
      const done = await act<ChangeDone>('POST', '/v1/policies/changes', { layer, edit, ...seen }, `change ${target}`)
      for (const { name, why } of done.notTaken) notify(`the session ${name} keeps the policy that it had: ${why}`, 'bad')
      if (done.notTaken.length === 0) notify('the policy is changed')
      onDone(done)
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      setProblem(error)
    }
  }
  return (
    <Dialog title="Change the policy" wide onClose={onClose}>
      {problem !== undefined && <ProblemNote problem={problem} />}
      {preview === undefined && problem === undefined && <p class="quiet">looking at what would change …</p>}
      {preview !== undefined && <Shown preview={preview} />}
      <div class="dialog-foot">
        {problem !== undefined && <Button onPress={look}>Look again</Button>}
        <Button onPress={onClose}>Cancel</Button>
        {preview !== undefined && (
          <Button kind="main" disabled={preview.isRefused || problem !== undefined} onPress={() => apply(preview)}>
            Apply
          </Button>
        )}
      </div>
    </Dialog>
  )
}

function Shown({ preview }: { preview: ChangePreview }) {
  const { target, layer, diff, problems, isRefused, reaches, expiresAt, before } = preview
  return (
    <>
      <dl class="facts">
        <dt>file</dt>
        <dd>
          <Name text={target} />
          {before === undefined && <span class="quiet"> (new)</span>}
        </dd>
        <dt>for</dt>
        <dd>
          <Exact text={layer} />
        </dd>
        <dt>reaches now</dt>
        <dd>{reaches.length === 0 ? 'no running session' : <Exact text={reaches.map(({ name }) => name).join(', ')} />}</dd>
        {expiresAt !== undefined && (
          <>
            <dt>ends</dt>
            <dd>
              <Ago at={expiresAt} />, at <At at={expiresAt} />
            </dd>
          </>
        )}
      </dl>
      {isRefused && (
        <p class="note note-bad" role="alert">
          This cannot be applied: sessions would not start with it.
        </p>
      )}
      <ProblemList problems={problems} file={target} />
      {diff.marks !== undefined && (
        <p class="note note-warn">
          It has text that could deceive ({diff.marks.map((mark) => mark.replaceAll('_', ' ')).join(', ')}): what could not be seen is
          written out.
        </p>
      )}
      <Diff text={diff.lines.join('\n')} label="The change" />
    </>
  )
}
