/** What is under way at once, by all ways in and in all networks together: the gate's bounds are held against it. */
export type Load = {
  /** Of `LIMITS.requestsMax`. */
  requests: number
  /** Of `LIMITS.tunnelsMax`. */
  tunnels: number
}

export function createLoad(): Load {
  return { requests: 0, tunnels: 0 }
}
