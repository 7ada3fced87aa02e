import type { ComponentChildren } from 'preact'

export type Tone = 'ok' | 'warn' | 'bad' | 'quiet'

/** A word with a colour; the word says it all, the colour repeats it. */
export function Badge({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return <span class={`badge badge-${tone}`}>{children}</span>
}
