import { useEffect, useRef, useState } from 'preact/hooks'
import type { FileProblem, ServersFile, ServersSaved } from '../../wire/servers.ts'
import { call, Problem } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { Name } from '../parts/exact.tsx'
import { notifyFailure } from '../parts/notices.tsx'
import { ProblemNote } from '../parts/problem-note.tsx'
import { act } from '../presence/act.ts'
import { FileProblems } from './file-problems.tsx'
import { referencesIn } from './references.ts'
import { notifySaved, WHEN } from './saved.ts'
import { SecretChips } from './secret-chip.tsx'
import { SecretInput } from './secret-input.tsx'

const CHECK_AFTER_MS = 350
const FRESH = '{\n  "mcpServers": {\n  }\n}\n'

/** mcp.json as it is written, with what is wrong with it beside it. */
export function RawFile({ file, onSaved }: { file: ServersFile; onSaved: () => void }) {
  const [original, setOriginal] = useState(file.digest === null ? FRESH : file.content)
  const [content, setContent] = useState(original)
  const [isShown, setShown] = useState(file.hidden === 0)
  const checked = useChecked(content, original)
  const [refused, setRefused] = useState<Problem | undefined>()
  const area = useRef<HTMLTextAreaElement | null>(null)
  const show = async (): Promise<void> => {
    const shown = await act<{ content: string }>('POST', '/v1/mcp/file/reveal', {}, 'show what looks like secrets in mcp.json')
    setOriginal(shown.content)
    setContent(shown.content)
    setShown(true)
  }
  const save = async (): Promise<void> => {
    setRefused(undefined)
    try {
      const saved = await act<ServersSaved>('PUT', '/v1/mcp/file', { before: file.digest, content }, 'write mcp.json')
      notifySaved('mcp.json is written', saved)
      onSaved()
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      setRefused(error)
    }
  }
  const goTo = ({ line, column }: FileProblem): void => {
    const before = content.split('\n', line - 1).reduce((sum, one) => sum + one.length + 1, 0)
    area.current?.focus()
    area.current?.setSelectionRange(before + column - 1, before + column - 1)
  }
  return (
    <section class="card stack" aria-label="mcp.json">
      <p class="quiet small">
        <Name text={file.path} />
        {file.digest === null && ' is not there yet: it is made when you save.'} {WHEN}
      </p>
      {!isShown && <HiddenNote count={file.hidden} onShow={show} />}
      <SecretInput
        multiline
        value={content}
        onValue={setContent}
        secrets={file.secrets}
        class="servers-raw"
        label="Content of mcp.json"
        rows={Math.min(40, Math.max(14, content.split('\n').length + 1))}
        place={(element) => (area.current = element as HTMLTextAreaElement | null)}
      />
      <SecretChips keys={referencesIn(content)} file={file} />
      <FileProblems problems={checked ?? file.problems} onPlace={goTo} />
      {refused !== undefined && <ProblemNote problem={refused} />}
      <div class="row">
        <Button kind="main" disabled={content === original && file.digest !== null} onPress={save}>
          Save mcp.json
        </Button>
        <Button disabled={content === original} onPress={() => setContent(original)}>
          Undo changes
        </Button>
        {refused?.code === 'mcp_config_outdated' && <Button onPress={onSaved}>Load it anew</Button>}
      </div>
    </section>
  )
}

function HiddenNote({ count, onShow }: { count: number; onShow: () => Promise<void> }) {
  return (
    <div class="note note-warn row">
      <span class="grow">
        {count === 1
          ? 'A value that looks like a secret in clear text is hidden.'
          : `${count} values that look like secrets in clear text are hidden.`}{' '}
        Keep secrets in the vault, and write <code>{'${secret:KEY}'}</code>.
      </span>
      <Button onPress={onShow}>Show hidden values</Button>
    </div>
  )
}

/** What is wrong with a text that is being written, a moment after the last key; undefined until it was asked. */
function useChecked(content: string, original: string): readonly FileProblem[] | undefined {
  const [problems, setProblems] = useState<readonly FileProblem[] | undefined>()
  useEffect(() => {
    if (content === original) {
      setProblems(undefined)
      return undefined
    }
    const stop = new AbortController()
    const timer = setTimeout(() => {
      call<{ problems: readonly FileProblem[] }>('POST', '/v1/mcp/file/check', { content }, stop.signal).then(
        (checked) => setProblems(checked.problems),
        (error: unknown) => {
          if (!stop.signal.aborted) notifyFailure(error)
        },
      )
    }, CHECK_AFTER_MS)
    return () => {
      clearTimeout(timer)
      stop.abort()
    }
  }, [content, original])
  return problems
}
