/** Where a gate listens on its address in a network. */
export const GATE_PORTS = { proxy: 3128, socks: 1080, http: 80, https: 443, dns: 53, gateway: 7070 } as const
