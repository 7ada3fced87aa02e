/** A unified diff. Which lines come and go is said by their signs; colours repeat it. `text` is as the daemon presents it: escaped and marked. */
export function Diff({ text, label }: { text: string; label: string }) {
  return (
    <pre class="diff" tabIndex={0} role="region" aria-label={label}>
      {text.split('\n').map((line, index) => (
        <span key={index} class={classOf(line)}>
          {line === '' ? ' ' : line}
        </span>
      ))}
    </pre>
  )
}

function classOf(line: string): string {
  if (line.startsWith('@@') || line.startsWith('---') || line.startsWith('+++')) return 'place'
  if (line.startsWith('+')) return 'added'
  return line.startsWith('-') ? 'removed' : ''
}
