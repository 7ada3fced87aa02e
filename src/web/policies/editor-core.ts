import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionSource } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { json } from '@codemirror/lang-json'
import { yaml } from '@codemirror/lang-yaml'
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from '@codemirror/language'
import { linter, lintGutter, lintKeymap, type Diagnostic } from '@codemirror/lint'
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search'
import { EditorState, type Extension, type Text } from '@codemirror/state'
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from '@codemirror/view'
import { tags } from '@lezer/highlight'

export type EditorProblem = {
  readonly severity: 'error' | 'warning'
  /** From 1; 0 is the text as a whole. */
  readonly line: number
  readonly column: number
  readonly message: string
}

export type EditorOptions = {
  readonly value: string
  readonly language: 'yaml' | 'json'
  readonly label: string
  readonly isReadOnly: boolean
  readonly onChange: (value: string) => void
  readonly check?: ((text: string) => Promise<readonly EditorProblem[]>) | undefined
  readonly complete?: CompletionSource | undefined
}

const CHECK_DELAY_MS = 300
/** What shows as nothing or turns the text around it, besides what CodeMirror knows. CVE-2021-42574 */
const UNSEEN = /\p{Default_Ignorable_Code_Point}/gu

/**
 * An editor inside a shadow root: its styles are constructable style sheets there, which the policy of the document lets in, where it
 * refuses `<style>`.
 */
export function openEditor(root: ShadowRoot, options: EditorOptions): EditorView {
  const { value, language, label, isReadOnly, onChange, check, complete } = options
  const extensions: Extension[] = [
    lineNumbers(),
    highlightActiveLineGutter(),
    highlightSpecialChars({ addSpecialChars: UNSEEN }),
    history(),
    drawSelection(),
    EditorState.allowMultipleSelections.of(true),
    indentUnit.of('  '),
    indentOnInput(),
    bracketMatching(),
    closeBrackets(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    search({ top: true }),
    autocompletion({
      // What is seen can be taken: who waits for it by its name hears of it at once.
      interactionDelay: 0,
      icons: false,
      ...(complete && { override: [complete] }),
    }),
    keymap.of([
      ...closeBracketsKeymap,
      ...completionKeymap,
      ...searchKeymap,
      ...historyKeymap,
      ...lintKeymap,
      ...defaultKeymap,
      indentWithTab,
    ]),
    language === 'yaml' ? yaml() : json(),
    syntaxHighlighting(HIGHLIGHT),
    THEME,
    EditorState.readOnly.of(isReadOnly),
    EditorView.contentAttributes.of({
      'aria-label': label,
      tabindex: '0',
      ...(isReadOnly && { 'aria-readonly': 'true' }),
      spellcheck: 'false',
    }),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) onChange(update.state.doc.toString())
    }),
  ]
  if (check !== undefined && !isReadOnly)
    extensions.push(
      lintGutter(),
      linter(async ({ state }) => (await check(state.doc.toString())).map((problem) => diagnosticOf(state.doc, problem)), {
        delay: CHECK_DELAY_MS,
      }),
    )
  return new EditorView({ state: EditorState.create({ doc: value, extensions }), root, parent: root })
}

/** Another text in the place of all that is there. */
export function replaceText(view: EditorView, value: string): void {
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } })
}

/** Takes the cursor to a line, and the line into sight. */
export function goToLine(view: EditorView, line: number): void {
  const { from } = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines))
  view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: 'center' }) })
  view.focus()
}

function diagnosticOf(doc: Text, { severity, line, column, message }: EditorProblem): Diagnostic {
  const at = doc.line(Math.min(Math.max(line, 1), doc.lines))
  const from = Math.min(at.from + Math.max(column - 1, 0), at.to)
  return { from, to: Math.max(from, at.to), severity, message }
}

const HIGHLIGHT = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--accent)', fontWeight: '600' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--ok)' },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: 'var(--warn)' },
  { tag: [tags.comment, tags.lineComment], color: 'var(--ink-quiet)', fontStyle: 'italic' },
  { tag: tags.invalid, color: 'var(--bad)' },
])

const THEME = EditorView.theme({
  '&': {
    color: 'var(--ink)',
    backgroundColor: 'var(--surface)',
    border: '1px solid var(--line-strong)',
    borderRadius: 'var(--radius-small)',
    fontSize: '13px',
  },
  '&.cm-focused': { outline: '2px solid var(--focus)', outlineOffset: '1px' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55', minHeight: '280px', maxHeight: '62vh', overflow: 'auto' },
  '.cm-content': { caretColor: 'var(--ink)', padding: '6px 0' },
  '.cm-cursor, .cm-dropCursor': { borderLeftColor: 'var(--ink)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'var(--accent-soft)',
  },
  '.cm-gutters': { backgroundColor: 'var(--sunken)', color: 'var(--ink-quiet)', borderRight: '1px solid var(--line)' },
  '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--sunken) 55%, transparent)' },
  '.cm-activeLineGutter': { backgroundColor: 'var(--line)', color: 'var(--ink)' },
  '.cm-specialChar': { color: 'var(--bad)', backgroundColor: 'var(--bad-soft)' },
  '.cm-selectionMatch': { backgroundColor: 'var(--warn-soft)' },
  '.cm-searchMatch': { backgroundColor: 'var(--warn-soft)', outline: '1px solid var(--warn)' },
  '.cm-searchMatch-selected': { backgroundColor: 'var(--accent-soft)' },
  '.cm-panels': { backgroundColor: 'var(--sunken)', color: 'var(--ink)' },
  '.cm-panels-top': { borderBottom: '1px solid var(--line)' },
  '.cm-panel.cm-search label': { fontSize: '13px' },
  '.cm-panel.cm-search [name=close]': { color: 'var(--ink)', minWidth: '24px', minHeight: '24px' },
  '.cm-textfield': { backgroundColor: 'var(--surface)', color: 'var(--ink)', border: '1px solid var(--line-strong)', fontSize: '13px' },
  '.cm-button': { backgroundImage: 'none', backgroundColor: 'var(--surface)', color: 'var(--ink)', border: '1px solid var(--line-strong)' },
  '.cm-tooltip': {
    backgroundColor: 'var(--raised)',
    color: 'var(--ink)',
    border: '1px solid var(--line-strong)',
    boxShadow: 'var(--shadow)',
  },
  '.cm-tooltip-autocomplete > ul > li': { padding: '3px 8px' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--accent-ink)' },
  '.cm-tooltip-autocomplete > ul > li[aria-selected] .cm-completionDetail': { color: 'var(--accent-ink)' },
  '.cm-completionDetail': { color: 'var(--ink-quiet)', fontStyle: 'normal', marginLeft: '1em' },
  '.cm-completionMatchedText': { textDecoration: 'underline' },
  '.cm-completionInfo': { maxWidth: '340px', padding: '6px 10px' },
  '.cm-diagnostic': { padding: '4px 10px', fontFamily: 'var(--font)' },
  '.cm-diagnostic-error': { borderLeft: '4px solid var(--bad)' },
  '.cm-diagnostic-warning': { borderLeft: '4px solid var(--warn)' },
  '.cm-lintRange-error': { backgroundImage: 'none', textDecoration: 'underline wavy var(--bad)' },
  '.cm-lintRange-warning': { backgroundImage: 'none', textDecoration: 'underline wavy var(--warn)' },
  '.cm-lint-marker-error, .cm-lint-marker-warning': {
    content: 'none',
    width: '10px',
    height: '10px',
    borderRadius: '50%',
    marginTop: '4px',
  },
  '.cm-lint-marker-error': { backgroundColor: 'var(--bad)' },
  '.cm-lint-marker-warning': { backgroundColor: 'var(--warn)', borderRadius: '2px' },
})
