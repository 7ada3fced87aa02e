/** Text that an agent made, for a message or a header: 120 characters at most, visible ASCII only. */
export function shown(text: string): string {
  const clean = text.replace(/[^\x20-\x7e]/g, '?')
  return clean.length > 120 ? `${clean.slice(0, 120)}...` : clean
}
