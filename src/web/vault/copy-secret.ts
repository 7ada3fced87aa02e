import { notify } from '../parts/notices.tsx'
import { act } from '../presence/act.ts'

/** A value that was copied is taken from the clipboard again after so long. */
const CLIPBOARD_MS = 45_000

/**
 * Puts a value on the clipboard, once the operator has proven who is there. It is in no element and no state of the page: of it a digest
 * is kept until the clipboard is looked at again.
 */
export async function copySecret(key: string): Promise<void> {
  const path = `/v1/secrets/${encodeURIComponent(key)}/copy`
  const { value } = await act<{ readonly value: string }>('POST', path, {}, `copy the value of ${key}`)
  await navigator.clipboard.writeText(value)
  const digest = await digestOf(value)
  const mayLook = await mayRead()
  setTimeout(() => void clear(digest), CLIPBOARD_MS)
  notify(
    mayLook
      ? `${key} is on the clipboard. It is taken off again in ${CLIPBOARD_MS / 1_000} seconds, if it is still there.`
      : `${key} is on the clipboard. This browser does not let the page look there again: copy something else when you are done.`,
  )
}

/** Whatever was copied since is none of ours. */
async function clear(digest: string): Promise<void> {
  if (!(await mayRead())) return
  // Who is elsewhere comes back: a page without the focus has no clipboard.
  if (!document.hasFocus()) {
    addEventListener('focus', () => void clear(digest), { once: true })
    return
  }
  if ((await digestOf(await navigator.clipboard.readText())) === digest) await navigator.clipboard.writeText('')
}

async function mayRead(): Promise<boolean> {
  try {
    // No browser is asked for the permission: a prompt about the clipboard, out of nowhere, helps nobody.
    return (await navigator.permissions.query({ name: 'clipboard-read' as PermissionName })).state === 'granted'
  } catch {
    return false
  }
}

async function digestOf(text: string): Promise<string> {
  const bytes = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text)))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
