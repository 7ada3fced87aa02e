import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { once } from 'node:events'
import { pipeline } from 'node:stream/promises'
import { codeOf, SallyportError } from '../kernel/errors.ts'
import { LIMITS } from '../kernel/limits.ts'
import { FORWARD_PROTOCOL } from '../wire/stream-frames.ts'
import { homeOf, parseFlags, type Command, type Io } from './command.ts'
import { daemonClient } from './daemon-client.ts'

export const forwardCommand: Command = {
  summary: 'reach a port of a session from this machine',
  usage: `usage: sallyport forward ID [LOCAL:]PORT

Listens on 127.0.0.1 and carries each connection to the port in the container of a session's agent: a server that the agent
runs, for the browser of this machine. Whoever is on this machine can connect meanwhile. What the server sends is the agent's: a page
of it is as trustworthy as the agent. Prints the address it listens on. Ends by SIGINT (ctrl-c) or SIGTERM.

  LOCAL    port on this machine (default: the same; 0: a free one)
  PORT     port in the session, 1 to 65535

Exit code: 0 ended by a signal, 1 failed, 2 usage.
`,
  async run(argv, io) {
    const usage = 'sallyport forward ID [LOCAL:]PORT'
    const { positionals } = parseFlags(argv, {}, { min: 2, max: 2, names: ['ID', 'PORT'], usage })
    const [id = '', ports = ''] = positionals
    const { local, remote } = parsePorts(ports, usage)
    const session = `/v1/sessions/${encodeURIComponent(id)}`
    // That there is no such session is said now; that nobody listens on the port yet, when somebody connects.
    const found = await daemonClient(homeOf(io.env)).read(session)
    found.resume()
    const open = new Set<Socket>()
    // Who has sent all may still want the answer.
    const server = createServer({ allowHalfOpen: true }, (socket) => {
      open.add(socket)
      void carry(socket, `${session}/forward/${remote}`, io).finally(() => open.delete(socket))
    })
    server.maxConnections = LIMITS.forwardConnectionsMax
    const port = await listen(server, local)
    const ended = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')])
    io.out(`127.0.0.1:${port} leads to port ${remote} of ${id}\n`)
    await ended
    server.close()
    for (const socket of open) socket.destroy()
    return 0
  },
}

/** Carries one connection both ways until both sides have ended it. */
async function carry(socket: Socket, path: string, io: Io): Promise<void> {
  socket.on('error', () => socket.destroy())
  try {
    const { socket: remote, head } = await daemonClient(homeOf(io.env)).upgrade(path, FORWARD_PROTOCOL)
    if (head.length > 0) remote.unshift(head)
    await Promise.all([pipeline(socket, remote), pipeline(remote, socket)])
  } catch (error) {
    socket.destroy()
    if (error instanceof SallyportError) io.err(`${error.code}: ${error.message}\n`)
  }
}

async function listen(server: Server, port: number): Promise<number> {
  try {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  } catch (cause) {
    throw new SallyportError('listen_failed', `127.0.0.1:${port}: ${codeOf(cause)}`, {
      hint: 'choose another: LOCAL:PORT, or 0:PORT',
      cause,
    })
  }
  return (server.address() as AddressInfo).port
}

function parsePorts(text: string, usage: string): { local: number; remote: number } {
  const [, local, remote = ''] = /^(?:(\d{1,5}):)?(\d{1,5})$/.exec(text) ?? []
  const ports = { local: Number(local ?? remote), remote: Number(remote) }
  if (remote === '' || ports.remote < 1 || ports.remote > 65_535 || ports.local > 65_535)
    throw new SallyportError('usage', `"${text}" is not [LOCAL:]PORT`, { hint: `usage: ${usage}` })
  return ports
}
