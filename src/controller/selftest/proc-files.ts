/** One line of `/proc/PID/mountinfo` (proc_pid_mountinfo(5)). */
export type Mount = {
  /** The folder or file within its file system that is mounted. */
  readonly root: string
  /** Where it is seen. */
  readonly point: string
  readonly type: string
  readonly isWritable: boolean
}

/** The fields of `/proc/PID/status`, by name. A name that stands twice is taken by its first line. */
export function readStatus(text: string): Readonly<Record<string, string>> {
  const fields: Record<string, string> = Object.create(null) as Record<string, string>
  for (const line of text.split('\n')) {
    const at = line.indexOf(':')
    const name = line.slice(0, at)
    if (at > 0 && fields[name] === undefined) fields[name] = line.slice(at + 1).trim()
  }
  return fields
}

/** Every mount, in order: of two at one place the later one covers the earlier. Lines that are none are left out. */
export function readMounts(text: string): Mount[] {
  return text.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ')
    const [, , , root, point, options = ''] = before.split(' ')
    const [type, , superOptions = ''] = after.split(' ')
    if (root === undefined || point === undefined || type === undefined) return []
    const isWritable = [options, superOptions].every((list) => list.split(',').includes('rw'))
    return [{ root: unescape(root), point: unescape(point), type, isWritable }]
  })
}

/** Space, tab, line feed and backslash are octal there. */
function unescape(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)))
}
