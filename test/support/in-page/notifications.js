// A browser whose operator agreed to notifications, and who can look away.
globalThis.notified = []
globalThis.Notification = class extends EventTarget {
  static permission = 'granted'
  constructor(title, { body }) {
    super()
    globalThis.notified.push([title, body])
    globalThis.lastNotice = this
  }
  close() {}
}
let isHidden = false
Object.defineProperty(document, 'visibilityState', { get: () => (isHidden ? 'hidden' : 'visible') })
globalThis.hide = (is) => {
  isHidden = is
  document.dispatchEvent(new Event('visibilitychange'))
}
