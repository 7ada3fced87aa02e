import { useId, useState } from 'preact/hooks'
import type { TestedServer } from '../../wire/control.ts'
import type { FileServer, ServersFile, ServersSaved } from '../../wire/servers.ts'
import { allowsTool } from '../../wire/tool-names.ts'
import { Badge } from '../parts/badge.tsx'
import { Button } from '../parts/button.tsx'
import { Exact, Name } from '../parts/exact.tsx'
import { Field } from '../parts/field.tsx'
import { act } from '../presence/act.ts'
import { notifySaved } from './saved.ts'
import { patternsIn } from './server-form.tsx'

type Props = {
  readonly file: ServersFile
  readonly name: string
  /** As mcp.json has it; of another source it is only shown. */
  readonly own: FileServer | undefined
  readonly tools: TestedServer['tools']
  readonly onSaved: () => void
}

/** The tools of a server, each with whether agents have it. Checks and patterns say the same, and are saved as patterns. */
export function Allowlist({ file, name, own, tools, onSaved }: Props) {
  const [text, setText] = useState(own?.tools?.join('\n') ?? '*')
  const patterns = patternsIn(text)
  const isAll = patterns.includes('*')
  const isChanged = (isAll ? '*' : patterns.join('\n')) !== (own?.tools?.join('\n') ?? '*')
  const toggle = (tool: string): void => {
    const names = isAll ? tools.map((one) => one.name) : patterns
    setText((names.includes(tool) ? names.filter((one) => one !== tool) : [...names, tool]).join('\n'))
  }
  const save = async (): Promise<void> => {
    const edit = { kind: 'tools', name, tools: isAll ? null : patterns }
    const body = { before: file.digest, edit }
    notifySaved(
      `The tools of ${name} are saved`,
      await act<ServersSaved>('POST', '/v1/mcp/file/edits', body, `change the tools of ${name}`),
    )
    onSaved()
  }
  return (
    <div class="stack">
      <ul class="servers-tools" aria-label="Tools" tabIndex={0}>
        {tools.map((tool, at) => (
          <Tool key={at} tool={tool} patterns={patterns} isOwn={own !== undefined} onToggle={() => toggle(tool.name)} />
        ))}
      </ul>
      {own !== undefined && (
        <>
          <Field
            label="As patterns"
            hint="One a line, * for any part of a name. * alone: all tools, also those that it has later."
            error={patterns.length === 0 ? 'Without one nothing of the server is left: remove it instead.' : undefined}
            control={(attributes) => (
              <textarea
                {...attributes}
                class="input servers-arg"
                rows={2}
                spellcheck={false}
                value={text}
                onInput={(event) => setText(event.currentTarget.value)}
              />
            )}
          />
          <div class="row">
            <Button kind="main" disabled={!isChanged || patterns.length === 0} onPress={save}>
              Save the tools
            </Button>
            <span class="quiet small grow">
              Looked at by the gate with every message: from now on, in running sessions too. A program that ran in the agent runs in a
              container of its own from the next session.
            </span>
          </div>
        </>
      )}
    </div>
  )
}

function Tool(props: { tool: TestedServer['tools'][number]; patterns: readonly string[]; isOwn: boolean; onToggle: () => void }) {
  const { patterns, isOwn, onToggle } = props
  const { name, isAllowed, description } = props.tool
  const id = useId()
  // A pattern says it of others too: it is changed as a pattern.
  const isByPattern = !patterns.includes('*') && !patterns.includes(name) && allowsTool(patterns, name)
  const shown = (
    <code>
      <Name text={name} />
    </code>
  )
  return (
    <li>
      {isOwn ? (
        <>
          <input type="checkbox" id={id} checked={allowsTool(patterns, name)} disabled={isByPattern} onChange={onToggle} />
          <label for={id}>
            {shown} {isByPattern && <span class="quiet small">by a pattern</span>}
          </label>
        </>
      ) : (
        <div class="servers-tool">
          {shown} <Badge tone={isAllowed ? 'ok' : 'quiet'}>{isAllowed ? 'agents have it' : 'hidden from agents'}</Badge>
        </div>
      )}
      {description !== undefined && (
        <p class="quiet small">
          <Exact text={description} />
        </p>
      )}
    </li>
  )
}
