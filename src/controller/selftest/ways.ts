/** One way out of a session that is tried before its agent starts. */
export type Way = {
  readonly id: string
  /** What is tried. */
  readonly what: string
  /** What must come of it. */
  readonly expected: string
  /** What an agent could do with it. */
  readonly why: string
}

/** Who tries: a container in the agent's place, this side with what the engine says about the agent's own, or both. */
export const WAYS = [
  {
    id: 'host-services',
    what: 'TCP to a listener of this machine on 0.0.0.0, by each address of the machine and of the jail’s bridge',
    expected: 'no connection arrives',
    why: 'a network that is only "internal" leaves every service of the host reachable by the bridge’s own address',
  },
  {
    id: 'host-datagrams',
    what: 'UDP to a listener of this machine, the same way',
    expected: 'no datagram arrives',
    why: 'what leaves as a datagram needs no connection',
  },
  {
    id: 'host-names',
    what: 'the names under which engines know this machine',
    expected: 'they do not exist',
    why: 'host.docker.internal leads to the host',
  },
  {
    id: 'ipv6',
    what: 'an IPv6 address of its own, and the link-local address of the bridge',
    expected: 'no address, no connection',
    why: 'a bridge keeps an IPv6 link-local address on the host, whatever the network says',
  },
  {
    id: 'routes',
    what: 'interfaces and routes',
    expected: 'one interface, its own subnet, no way beyond',
    why: 'with a gateway every address is one hop away',
  },
  {
    id: 'other-sessions',
    what: 'TCP to the sidecars of other sessions by their addresses in their jails',
    expected: 'no connection',
    why: 'another session’s gate writes another session’s credentials',
  },
  {
    id: 'dns',
    what: 'TXT of a name that no rule allows, from each resolver that the container has',
    expected: 'NXDOMAIN, said by the gate',
    why: 'a name that is looked up outside carries data out, and the engine’s resolver may ask from the host',
  },
  {
    id: 'udp-443',
    what: 'UDP to port 443 of the gate',
    expected: 'nothing answers',
    why: 'QUIC would go past what looks into TLS',
  },
  {
    id: 'icmp',
    what: 'an ICMP echo to the bridge',
    expected: 'no socket, or no answer',
    why: 'echoes carry data',
  },
  {
    id: 'raw-sockets',
    what: 'raw and packet sockets',
    expected: 'refused by the kernel',
    why: 'with one it is any address and any neighbour on the network',
  },
  {
    id: 'metadata',
    what: 'the metadata services of clouds, through the gate',
    expected: 'the gate refuses',
    why: 'they hand out the credentials of the machine',
  },
  {
    id: 'root-filesystem',
    what: 'writing to the root file system',
    expected: 'read-only',
    why: 'what is changed there runs at the next command',
  },
  {
    id: 'mounts',
    what: 'every mount that can be written',
    expected: 'only those that the session has',
    why: 'a folder of the host decides what the host runs',
  },
  {
    id: 'kernel-files',
    what: 'opening what configures the kernel in /proc, /sys and /dev for writing',
    expected: 'refused',
    why: 'core_pattern and the like run programs on the host',
  },
  {
    id: 'capabilities',
    what: 'capabilities, in all five sets',
    expected: 'none',
    why: 'each is a part of being root',
  },
  {
    id: 'no-new-privileges',
    what: 'gaining privileges by a set-uid program',
    expected: 'switched off (no_new_privs)',
    why: 'sudo and ping in the agent’s image would be root',
  },
  {
    id: 'seccomp',
    what: 'the filter of system calls',
    expected: 'a filter is in force',
    why: 'without one all of the kernel is there to be attacked',
  },
  {
    id: 'user',
    what: 'the user',
    expected: 'not root',
    why: 'root of the container owns what root of the host owns in a mount',
  },
  {
    id: 'namespaces',
    what: 'namespaces of the host, and making new ones',
    expected: 'none is shared, none can be made',
    why: 'a shared one shows the host’s processes or network; in a new one a process has capabilities again',
  },
  {
    id: 'engine-socket',
    what: 'sockets of container engines',
    expected: 'none is there',
    why: 'whoever talks to the engine is root of the host',
  },
  {
    id: 'sidecar-folders',
    what: 'folders that only the sidecar may see: control socket, policy, secrets, keys, audit',
    expected: 'none is mounted',
    why: 'they are what the gate decides by',
  },
  {
    id: 'leases',
    what: 'leases and processes that are not its own',
    expected: 'none can be seen',
    why: 'a lease is the right to use a session’s credentials',
  },
  {
    id: 'same-container',
    what: 'the agent’s container beside the one that tried all this, option by option',
    expected: 'they differ in image and command alone',
    why: 'what was proven of the one holds for the other',
  },
  {
    id: 'agent-process',
    what: 'the agent’s own process, as the kernel of this machine describes it',
    expected: 'no capabilities, no new privileges, a filter of system calls',
    why: 'the engine says what was asked for, the kernel what is',
  },
] as const satisfies readonly Way[]

export type WayId = (typeof WAYS)[number]['id']

/** What came of one way. */
export type Finding = {
  readonly id: WayId
  /** Whether it is shut. */
  readonly ok: boolean
  /** What happened, in a few words. */
  readonly detail: string
}
