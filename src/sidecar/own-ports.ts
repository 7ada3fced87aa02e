/** Where the gate itself listens, of the addresses that this machine has. */
export type OwnPorts = {
  /** On some address for good: on each of them, as far as anybody may be led there. */
  add(port: number): void
  /** On this one, until it is disposed. */
  addAt(address: string, port: number): Disposable
  /** Whether a connection to this address of this machine's may reach the gate. */
  has(address: string, port: number): boolean
}

/** Of this machine's addresses each, also those to come. */
function isAll(address: string): boolean {
  return address === '0.0.0.0' || address === '::'
}

export function createOwnPorts(): OwnPorts {
  const everywhere = new Set<number>()
  const single = new Set<{ readonly address: string; readonly port: number }>()
  return {
    add: (port) => void everywhere.add(port),
    addAt(address, port) {
      const place = { address, port }
      single.add(place)
      return { [Symbol.dispose]: () => void single.delete(place) }
    },
    has(address, port) {
      if (everywhere.has(port)) return true
      // An IPv6 spelling may be one of an IPv4 address (RFC 4291 §2.5.5.2).
      return [...single].some(
        (place) => place.port === port && (isAll(place.address) || place.address === address || address.includes(':')),
      )
    },
  }
}
