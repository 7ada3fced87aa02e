import { visible } from '../../kernel/visible.ts'

/**
 * I85: Text of somebody else: an agent, a repository, a host. What would show as nothing, or turn the text around it, is written out, and it
 * is set apart from ours in its direction (CVE-2021-42574). Line ends and spaces stay.
 */
export function Exact({ text }: { text: string }) {
  return <bdi class="exact">{visible(text)}</bdi>
}

/** The same of what is one line: a name, a folder, a tag. A second line of it would look like one of ours, so its line ends are written out. */
export function Name({ text }: { text: string }) {
  return <bdi class="exact">{nameOf(text)}</bdi>
}

/** The text of a `Name`, for attributes, options and notices. */
export function nameOf(text: string): string {
  return visible(text).replaceAll('\n', '\\u{A}')
}

/** Offers of a field, for its `list`. The browser shows and takes them as they are: what could deceive is not offered. */
export function Offers({ id, values }: { id: string; values: readonly string[] }) {
  return (
    <datalist id={id}>
      {[...new Set(values)]
        .filter((value) => nameOf(value) === value)
        .map((value) => (
          <option key={value}>{value}</option>
        ))}
    </datalist>
  )
}
