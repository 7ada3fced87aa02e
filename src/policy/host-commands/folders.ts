/** Where the agent has the workspace. */
const IN_CONTAINER = '/workspace'

/**
 * A folder from the workspace's folder, canonical: `.` or `a/b`. Text alone: whoever runs something there looks where links lead.
 * @returns `undefined` for one that is not in the workspace
 */
export function workspaceFolder(cwd: string): string | undefined {
  if (/[\0\r\n]/.test(cwd) || cwd.length > 4_096) return undefined
  const inside = cwd === IN_CONTAINER || cwd.startsWith(`${IN_CONTAINER}/`) ? cwd.slice(IN_CONTAINER.length + 1) : cwd
  if (inside.startsWith('/')) return undefined
  const parts: string[] = []
  for (const part of inside.split('/')) {
    if (part === '' || part === '.') continue
    if (part === '..') return undefined
    parts.push(part)
  }
  return parts.length === 0 ? '.' : parts.join('/')
}

/** Whether a canonical folder is this one or below it. */
export function isBelow(folder: string, above: string): boolean {
  return above === '.' || folder === above || folder.startsWith(`${above}/`)
}
