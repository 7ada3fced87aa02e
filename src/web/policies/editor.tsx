import type { CompletionSource } from '@codemirror/autocomplete'
import type { EditorView } from '@codemirror/view'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import type * as EditorCore from './editor-core.ts'
import type { EditorProblem } from './editor-core.ts'
import './editor.css'

export type { EditorProblem } from './editor-core.ts'

/** Text that is edited, with colours, search, live checks and completion. It is loaded when it is first needed. */
export function Editor(props: {
  readonly value: string
  readonly onChange: (value: string) => void
  readonly language: 'yaml' | 'json'
  /** What it is, for who hears the page. */
  readonly label: string
  /** What is wrong with a text, asked once typing rests. */
  readonly check?: (text: string) => Promise<readonly EditorProblem[]>
  readonly complete?: CompletionSource
  readonly readOnly?: boolean
  /** Taken to when it changes. */
  readonly line?: number | undefined
}) {
  const { value, language, label, readOnly = false, line } = props
  const host = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView>(undefined)
  const core = useRef<typeof EditorCore>(undefined)
  // Those of the last render, for an editor that was opened in the first.
  const last = useRef(props)
  last.current = props
  // Texts of the editor that have not come back as its value yet: one that comes late must not undo what was typed since.
  const told = useRef<string[]>([])
  const [isOpen, setOpen] = useState(false)
  const hint = useId()
  useEffect(() => {
    let isOver = false
    void import('./editor-core.ts').then((loaded) => {
      if (isOver || host.current === null) return
      core.current = loaded
      const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: 'open' })
      view.current = loaded.openEditor(root, {
        value: last.current.value,
        language,
        label,
        isReadOnly: readOnly,
        onChange(text) {
          told.current.push(text)
          last.current.onChange(text)
        },
        ...(last.current.check && { check: async (text) => (await last.current.check?.(text)) ?? [] }),
        // What completes may come after the editor.
        complete: (context) => last.current.complete?.(context) ?? null,
      })
      setOpen(true)
    })
    return () => {
      isOver = true
      view.current?.destroy()
      view.current = undefined
      setOpen(false)
    }
  }, [language, label, readOnly])
  useEffect(() => {
    const known = told.current.lastIndexOf(value)
    if (known !== -1) told.current.splice(0, known + 1)
    else if (view.current !== undefined && view.current.state.doc.toString() !== value) {
      core.current?.replaceText(view.current, value)
      told.current = []
    }
  }, [value, isOpen])
  useEffect(() => {
    if (view.current !== undefined && line !== undefined) core.current?.goToLine(view.current, line)
  }, [line, isOpen])
  return (
    <div class="editor" aria-busy={!isOpen}>
      <div ref={host} class="editor-host" />
      {!isOpen && <p class="quiet">loading the editor …</p>}
      <p id={hint} class="small quiet">
        {readOnly
          ? 'This text is only shown.'
          : 'Tab indents; Escape and then Tab leaves the editor. Ctrl-Space completes, Ctrl-F searches.'}
      </p>
    </div>
  )
}
