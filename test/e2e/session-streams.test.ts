// Escape sequences are what this is about.
/* oxlint-disable no-control-regex */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer, connect, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { Secret } from '../../src/kernel/secret.ts'
import { eventually } from '../support/eventually.ts'
import { MAIN } from '../support/main-file.ts'
import { openPty, type Pty } from '../support/pty.ts'
import { startSessionDaemon, type SessionDaemon } from '../support/session-daemon.ts'

const SECRET = 'k7Fq-2mZ_x9Wc4R-t8Yp'
const RAW = { canonical: false, echo: false }
const COOKED = { canonical: true, echo: true }
const ALWAYS = '\x18\x0f\x1b(B\x1b)B\x1b[0m'

/** A command line of ours on a terminal of its own. */
const onTerminal = (daemon: SessionDaemon, ...argv: string[]): Pty => openPty([process.execPath, MAIN, ...argv], { env: daemon.env })

/** The same with pipes. */
async function piped(
  daemon: SessionDaemon,
  argv: readonly string[],
  input = '',
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, [MAIN, ...argv], { env: daemon.env, stdio: ['pipe', 'pipe', 'pipe'] })
  const printed = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk: Buffer) => (printed.stdout += chunk.toString('latin1')))
  child.stderr.on('data', (chunk: Buffer) => (printed.stderr += chunk.toString('latin1')))
  child.stdin.on('error', () => undefined)
  child.stdin.end(input)
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, ...printed }
}

/** A shell's answer to each line, on a terminal. */
const ANSWERING = [
  'sh',
  '-c',
  'stty -echo; printf "ready\\n$ "; while read -r line; do case "$line" in size) stty size;; bye) exit 7;; esac; printf "got %s %s\\n$ " "$line" "${#line}"; done',
]

test('attach: the terminal is raw meanwhile, what is typed arrives, sizes too, and the exit code is the program’s', async () => {
  await using program = openPty(ANSWERING, { columns: 10, rows: 10 })
  await program.sees('ready')
  await using daemon = await startSessionDaemon(program)
  await using client = onTerminal(daemon, 'attach', 'known')
  await eventually(async () => assert.deepEqual(await client.discipline(), RAW))
  await eventually(() => assert.deepEqual(daemon.sizes, ['80x25', '80x24'], 'another size first: the program draws anew'))
  client.write('hello\r')
  await client.sees('got hello')
  client.resize(101, 33)
  await eventually(() => assert.equal(daemon.sizes.at(-1), '101x33'))
  client.write('size\r')
  await client.sees('33 101')
  client.write('bye\r')
  assert.equal(await client.exited, 7)
  assert.equal(await daemon.served[0], 'ended')
})

test('attach: detach keys leave the program running, the terminal is what it was, and another attach goes on', async () => {
  await using program = openPty(ANSWERING)
  await program.sees('ready')
  await using daemon = await startSessionDaemon(program)
  await using client = onTerminal(daemon, 'attach', 'known')
  await eventually(async () => assert.deepEqual(await client.discipline(), RAW))
  client.write('one\x10')
  client.write('\x10\x11')
  await client.sees('detached')
  assert.equal(await client.exited, 0)
  assert.equal(await daemon.served[0], 'detached')
  await using again = onTerminal(daemon, 'attach', 'known', '--detach-keys', 'ctrl-],x')
  await eventually(async () => assert.deepEqual(await again.discipline(), RAW))
  again.write('two\r')
  // The first ctrl-p was no part of the keys, and arrived.
  await again.sees('got onetwo 7')
  again.write('\x1dx')
  assert.equal(await again.exited, 0)
})

/** Leaves a terminal in every state that the filter lets through, and asks where the cursor is. */
const MESS =
  '\\033[?1049h\\033[?1003h\\033[?1006h\\033[?2004h\\033[?25l\\033[>1u\\033[2;5r\\033[31m\\033]52;c;aGk=\\007\\033]2;title\\007\\033[c\\033[6nmess'
const RESTORED = ['\x1b[?1003l', '\x1b[?1006l', '\x1b[?2004l', '\x1b[?25h', '\x1b7\x1b[r\x1b8', '\x1b[?1049l', '\x1b[<1u']
/** Prints the mess and waits. */
const MESSY = ['sh', '-c', `stty -echo -icanon; read -r go; printf '${MESS}'; exec cat`]

for (const { name, leave } of [
  { name: 'by detach keys', leave: async (client: Pty) => client.write('\x10\x11') },
  {
    name: 'by detach keys as the program has made the terminal write them',
    leave: async (client: Pty) => client.write('\x1b[112;5u\x1b[113;5u'),
  },
  { name: 'by SIGTERM', leave: async (client: Pty, daemon: SessionDaemon) => signalClient(client, daemon, 'SIGTERM') },
  { name: 'by SIGHUP', leave: async (client: Pty, daemon: SessionDaemon) => signalClient(client, daemon, 'SIGHUP') },
  { name: 'when the daemon is gone', leave: async (_: Pty, daemon: SessionDaemon) => daemon.cut() },
  { name: 'when the session is ended', leave: async (_: Pty, daemon: SessionDaemon) => daemon.end.abort(new Error('ended')) },
]) {
  test(`I26 attach ended ${name}: the terminal is in no state that the program left`, async () => {
    await using program = openPty(MESSY)
    await using daemon = await startSessionDaemon(program)
    await using client = onTerminal(daemon, 'attach', 'known')
    await eventually(async () => assert.deepEqual(await client.discipline(), RAW))
    client.write('\n')
    await client.sees('\x1b[6n')
    await client.sees('mess')
    await leave(client, daemon)
    await client.exited
    for (const sequence of [ALWAYS, ...RESTORED])
      await client.sees('').then(() => assert.ok(client.printed().includes(sequence), JSON.stringify(sequence)))
    assert.doesNotMatch(client.printed(), /52;c|\]2;|title/)
  })
}

/** The client is the child of what holds its terminal. */
async function signalClient(client: Pty, _: SessionDaemon, signal: NodeJS.Signals): Promise<void> {
  const pid = await readFile(`/proc/${client.pid}/task/${client.pid}/children`, 'utf8')
  process.kill(Number(pid), signal)
}

test('attach: after every end the line discipline is what it was', async () => {
  await using program = openPty(MESSY)
  await using daemon = await startSessionDaemon(program)
  // The shell lives on after the client, on the same terminal.
  await using shell = openPty(['sh', '-c', `"$@"; echo back; exec cat`, 'sh', process.execPath, MAIN, 'attach', 'known'], {
    env: daemon.env,
  })
  await eventually(async () => assert.deepEqual(await shell.discipline(), RAW))
  shell.write('\x10\x11')
  await shell.sees('back')
  assert.deepEqual(await shell.discipline(), COOKED)
})

test('attach: an answer that is on its way when the operator leaves is not typed into the operator’s shell', async () => {
  await using program = openPty(MESSY)
  await using daemon = await startSessionDaemon(program)
  await using shell = openPty(
    ['sh', '-c', `"$@"; echo back; read -r line; echo "line: <$line>"; exec cat`, 'sh', process.execPath, MAIN, 'attach', 'known'],
    { env: daemon.env },
  )
  await eventually(async () => assert.deepEqual(await shell.discipline(), RAW))
  shell.write('\n')
  await shell.sees('mess')
  shell.write('\x10\x11')
  // A slow terminal: it answers the program's question and then the fence that the client puts behind it.
  await shell.sees('\x1b[5n')
  shell.write('\x1b[12;40R\x1b[0n')
  await shell.sees('back')
  shell.write('mine\r')
  await shell.sees('line: <mine>')
})

test('I27 attach and exec show no secret of the session, coloured and cut, and one that is pushed at once', async () => {
  await using program = openPty(ANSWERING)
  await program.sees('ready')
  await using daemon = await startSessionDaemon(program)
  daemon.secrets = [new Secret('TOKEN', SECRET)]
  await using client = onTerminal(daemon, 'attach', 'known')
  await eventually(async () => assert.deepEqual(await client.discipline(), RAW))
  client.write(`${SECRET}\r`)
  await client.sees(`got ${'*'.repeat(SECRET.length)}`)
  daemon.secrets = [new Secret('TOKEN', 'Another-One-4711')]
  client.write(`Another-One-4711 ${SECRET}\r`)
  await client.sees(`got **************** ${'*'.repeat(SECRET.length)}`)
  assert.doesNotMatch(client.printed(), /2mZ_x9|One-47/)
  const coloured = `${SECRET.slice(0, 9)}\x1b[31m${SECRET.slice(9)}`
  const both = await piped(daemon, ['exec', 'known', '--', 'sh', '-c', `printf '%s' '${coloured}'; printf '%s' '${SECRET}' >&2`])
  assert.equal(both.stdout, `${'*'.repeat(9)}\x1b[31m${'*'.repeat(SECRET.length - 9)}`)
  assert.equal(both.stderr, '*'.repeat(SECRET.length))
})

test('exec: in a pipe input, both outputs and exit code are the program’s, byte for byte', async () => {
  await using daemon = await startSessionDaemon()
  const input = `${'x'.repeat(100_000)}\x1b]52;c;aGk=\x07`
  const ended = await piped(daemon, ['exec', 'known', '--', 'sh', '-c', 'cat; echo problem >&2; exit 3'], input)
  assert.deepEqual(ended, { code: 3, stdout: input, stderr: 'problem\n' })
  assert.deepEqual(daemon.requests, [
    { argv: ['sh', '-c', 'cat; echo problem >&2; exit 3'], tty: false, terminal: { stdout: false, stderr: false } },
  ])
})

test('exec: what the program does not read is not held whole, and arrives whole', async () => {
  await using daemon = await startSessionDaemon()
  const input = 'y'.repeat(8 * 1024 * 1024)
  const ended = await piped(daemon, ['exec', 'known', '--', 'sh', '-c', 'sleep 0.2; wc -c'], input)
  assert.equal(ended.stdout.trim(), String(input.length))
})

test('exec: on a terminal the program has one of the same size, and its output is filtered', async () => {
  await using daemon = await startSessionDaemon()
  await using client = onTerminal(
    daemon,
    'exec',
    'known',
    '--',
    'sh',
    '-c',
    "stty size; test -t 0 && test -t 1 && printf 'a\\033]52;c;aGk=\\007\\033[31mb\\n'; exit 5",
  )
  assert.equal(await client.exited, 5)
  assert.match(client.printed(), /24 80/)
  assert.match(client.printed(), /a\x1b\[31mb/)
  assert.doesNotMatch(client.printed(), /52;c/)
})

test('exec --no-tty: a terminal shows lines and colours of it, and nothing that would make the terminal type', async () => {
  await using daemon = await startSessionDaemon()
  await using client = onTerminal(daemon, 'exec', '--no-tty', 'known', '--', 'printf', 'a\\033[6n\\033[?1003h\\033[2J\\033[31mb')
  assert.equal(await client.exited, 0)
  assert.equal(client.printed(), `a\x1b[31mb${ALWAYS}${ALWAYS}`)
})

test('a program that is asked for the kind of terminal gets the answer before anybody types', async () => {
  await using daemon = await startSessionDaemon()
  await using client = onTerminal(
    daemon,
    'exec',
    'known',
    '--',
    'sh',
    '-c',
    `stty raw -echo; printf '\\033[c'; dd bs=10 count=1 2>/dev/null | od -An -c`,
  )
  assert.equal(await client.exited, 0)
  assert.match(client.printed().replaceAll(/\s+/g, ''), /033\[\?62;22c/)
  assert.doesNotMatch(client.printed(), /\x1b\[c/)
})

test('logs: all but the secrets goes into a pipe, lines and colours to a terminal', async () => {
  const text = `one ${SECRET} \x1b[31mred\x1b[0m\x1b[2J\x1b[6n\x1b]52;c;aGk=\x07\n`
  await using daemon = await startSessionDaemon(undefined, async function* () {
    for (const byte of Buffer.from(text)) yield Buffer.from([byte])
  })
  daemon.secrets = [new Secret('TOKEN', SECRET)]
  const ended = await piped(daemon, ['logs', 'known', '--tail', '5', '--follow'])
  assert.deepEqual(ended, { code: 0, stdout: text.replace(SECRET, '*'.repeat(SECRET.length)), stderr: '' })
  assert.deepEqual(daemon.requests, [{ tail: '5', follow: '1' }])
  await using client = onTerminal(daemon, 'logs', 'known')
  assert.equal(await client.exited, 0)
  assert.equal(client.printed(), `one ${'*'.repeat(SECRET.length)} \x1b[31mred\x1b[0m\r\n${ALWAYS}`)
})

test('a reader that has seen enough ends logs, without a complaint', async () => {
  await using daemon = await startSessionDaemon(undefined, async function* () {
    for (;;) {
      yield Buffer.alloc(64 * 1024, 'line\n')
      await new Promise(setImmediate)
    }
  })
  const shell = spawn('sh', ['-c', `"$0" "${MAIN}" logs known | head -n 1`, process.execPath], {
    env: daemon.env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stderr = ''
  shell.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  assert.deepEqual(await once(shell, 'close'), [0, null])
  assert.equal(stderr, '')
})

test('forward: each connection to the port here reaches the one there, both ways', async () => {
  await using daemon = await startSessionDaemon()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    let got = ''
    socket.on('data', (chunk: Buffer) => (got += chunk.toString()))
    socket.on('end', () => socket.end(`echo ${got}`))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const remote = (server.address() as AddressInfo).port
  const child = spawn(process.execPath, [MAIN, 'forward', 'known', `0:${remote}`], {
    env: daemon.env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const port = Number(/^127\.0\.0\.1:(\d+) leads to port/.exec(line.toString())?.[1])
  for (const text of ['one', 'two']) {
    const socket = connect(port, '127.0.0.1')
    socket.end(text)
    let got = ''
    socket.on('data', (chunk: Buffer) => (got += chunk.toString()))
    await once(socket, 'close')
    assert.equal(got, `echo ${text}`)
  }
  // One that never ends does not keep it.
  const lasting = connect(port, '127.0.0.1')
  lasting.on('error', () => undefined)
  await once(lasting, 'connect')
  child.kill('SIGTERM')
  assert.deepEqual(await once(child, 'close'), [0, null])
  server.close()
  lasting.destroy()
})

for (const argv of [
  ['attach', 'lost'],
  ['exec', 'lost', '--', 'ls'],
  ['logs', 'lost'],
  ['forward', 'lost', '80'],
]) {
  test(`${argv.join(' ')}: what the daemon refuses is said with its code and hint`, async () => {
    await using daemon = await startSessionDaemon()
    assert.deepEqual(await piped(daemon, argv), {
      code: 2,
      stdout: '',
      stderr: 'usage: there is no session "lost"\nhint: sallyport ls lists them\n',
    })
  })

  test(`${argv.join(' ')}: without a daemon that is said, and how to start one`, async () => {
    const daemon = await startSessionDaemon()
    await daemon[Symbol.asyncDispose]()
    const { code, stderr } = await piped(daemon, argv)
    assert.equal(code, 1)
    assert.match(stderr, /^daemon_unavailable: .*daemon\.sock: there is no daemon\nhint: start it: sallyport daemon\n$/)
  })
}

test('a daemon that goes away is said, with exit code 1', async () => {
  await using daemon = await startSessionDaemon()
  const ending = piped(daemon, ['exec', 'known', '--', 'sleep', '1000'])
  await eventually(() => assert.equal(daemon.requests.length, 1))
  daemon.cut()
  const { code, stderr } = await ending
  assert.equal(code, 1)
  assert.match(stderr, /^stream_lost: the daemon closed the stream before the program ended/)
})

test('a client that sends what is no request is told so, and no program is run', async () => {
  await using daemon = await startSessionDaemon()
  for (const bytes of [
    Buffer.from([8, 0, 0, 0, 2, 0x7b, 0x7d]),
    Buffer.from([0, 0, 0, 0, 1, 0x61]),
    Buffer.from('GET / HTTP/1.1\r\n\r\n'),
    Buffer.from([8, 0xff, 0xff, 0xff, 0xff]),
  ]) {
    const socket = connect(join(daemon.env['SALLYPORT_HOME'] as string, 'daemon.sock'))
    socket.write('POST /v1/sessions/known/exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: sallyport-stream\r\n\r\n')
    socket.write(bytes)
    let got = ''
    socket.on('data', (chunk: Buffer) => (got += chunk.toString('latin1')))
    await once(socket, 'close')
    assert.match(got, /101 Switching[^]*"code":"stream_lost"/)
  }
  assert.deepEqual(daemon.requests, [])
})

for (const [argv, complaint] of [
  [['exec', 'known'], /no command/],
  [['exec', 'known', '--tty', '--no-tty', '--', 'ls'], /exclude/],
  [['attach'], /ID is missing/],
  [['attach', 'known', '--detach-keys', 'shift-x'], /no key/],
  [['logs', 'known', '--tail', 'all'], /number of lines/],
  [['forward', 'known', '70000'], /LOCAL/],
  [['forward', 'known', 'localhost:80'], /LOCAL/],
] as const) {
  test(`${argv.join(' ')} is refused as usage`, async () => {
    await using daemon = await startSessionDaemon()
    const { code, stderr } = await piped(daemon, argv)
    assert.equal(code, 2)
    assert.match(stderr, /^usage: /)
    assert.match(stderr, complaint)
  })
}

test('--help behind "--" is the program’s', async () => {
  await using daemon = await startSessionDaemon()
  await writeFile(join(daemon.home, 'tool.sh'), 'echo "tool $1"')
  const { stdout } = await piped(daemon, ['exec', 'known', '--', 'sh', 'tool.sh', '--help'])
  assert.equal(stdout, 'tool --help\n')
})
