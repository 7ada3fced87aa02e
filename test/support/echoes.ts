import type { ServerResponse } from 'node:http'
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'

/** An answer that gives a secret back. */
export type Echo = {
  readonly status?: number
  readonly reason?: string
  readonly headers?: readonly (readonly [name: string, value: string])[]
  readonly trailers?: readonly (readonly [name: string, value: string])[]
  /** The Link of an interim answer before it. */
  readonly early?: string
  /** Each is written by itself. */
  readonly chunks?: readonly (Buffer | string)[]
}

export type EchoCase = {
  readonly why: string
  readonly echo: (secret: string) => Echo
  /** The code that the agent gets in its place, where it cannot be looked into. */
  readonly refused?: string
  /** Only HTTP/1.1 can say it. */
  readonly isOld?: boolean
}

const each = (text: string, write: (code: number) => string): string =>
  Array.from(text, (letter) => write(letter.codePointAt(0) ?? 0)).join('')
const hex = (code: number, digits = 2): string => code.toString(16).padStart(digits, '0')
const percent = (text: string): string => each(text, (code) => `%${hex(code)}`)
const base64 = (text: string): string => Buffer.from(text).toString('base64')
const wrapped = (text: string, size: number, end: string): string => text.match(new RegExp(`.{1,${size}}`, 'g'))?.join(end) ?? ''
const bytes = (text: string): Buffer[] => Array.from(Buffer.from(text), (byte) => Buffer.of(byte))
const HTML: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const html = (text: string): string => text.replaceAll(/[&<>"']/g, (letter) => HTML[letter] ?? letter)
const page = (secret: string): string =>
  `{"url": "/v1/me", "headers": {"authorization": ${JSON.stringify(`Bearer ${secret}`)}}, "ok": true}\n`

/** A message of gRPC (its flag, its length, its bytes). */
export function grpcMessage(text: string, flag = 0): Buffer {
  const head = Buffer.alloc(5)
  head[0] = flag
  head.writeUInt32BE(Buffer.byteLength(text), 1)
  return Buffer.concat([head, Buffer.from(text)])
}

/** How a text is written in a body. Each is found wherever it stands. */
const SPELLINGS: Readonly<Record<string, (secret: string) => string>> = {
  'as it is': (secret) => secret,
  'in JSON': (secret) => JSON.stringify(secret),
  'in JSON with escaped slashes (PHP)': (secret) => JSON.stringify(secret).replaceAll('/', '\\/'),
  'in JSON with every letter escaped': (secret) => `"${each(secret, (code) => `\\u${hex(code, 4)}`)}"`,
  'in JSON in JSON': (secret) => JSON.stringify(JSON.stringify({ token: secret })),
  'escaped for a program': (secret) => each(secret, (code) => `\\x${hex(code)}`),
  'in HTML': html,
  'in HTML by decimal numbers': (secret) => each(secret, (code) => `&#${code};`),
  'in HTML by hexadecimal numbers': (secret) => each(secret, (code) => `&#x${hex(code).toUpperCase()};`),
  'URL-encoded': encodeURIComponent,
  'URL-encoded in lower case': (secret) => encodeURIComponent(secret).replaceAll(/%../g, (part) => part.toLowerCase()),
  'URL-encoded letter by letter': percent,
  'URL-encoded as a form': (secret) => String(new URLSearchParams({ token: secret })),
  'URL-encoded twice': (secret) => encodeURIComponent(encodeURIComponent(secret)),
  'in base64': base64,
  'in base64 behind one byte': (secret) => base64(`x${secret}y`),
  'in base64 behind two bytes': (secret) => base64(`xx${secret}yy`),
  'in base64 with user and colon': (secret) => base64(`oauth2:${secret}`),
  'in base64url': (secret) => Buffer.from(`x${secret}`).toString('base64url'),
  'in base64 that is URL-encoded': (secret) => encodeURIComponent(base64(`??>${secret}`)),
  'in base64 of 76 letters a line': (secret) => wrapped(base64(`${'~'.repeat(50)}${secret}${'~'.repeat(50)}`), 76, '\r\n'),
  'in base64 of 64 letters a line (PEM)': (secret) => wrapped(base64(`${'~'.repeat(40)}${secret}${'~'.repeat(50)}`), 64, '\n'),
  'in base64 of lines in JSON': (secret) => JSON.stringify(wrapped(base64(`${'~'.repeat(50)}${secret}`), 76, '\n')),
  'in hexadecimal': (secret) => Buffer.from(secret).toString('hex'),
  'in hexadecimal capitals': (secret) => Buffer.from(secret).toString('hex').toUpperCase(),
}

const CODINGS: Readonly<Record<string, (body: Buffer) => Buffer>> = {
  gzip: (body) => gzipSync(body),
  deflate: (body) => deflateSync(body),
  br: (body) => brotliCompressSync(body),
  zstd: (body) => zstdCompressSync(body),
}

/** Every way of giving a secret back that is searched for. */
export const ECHOES: readonly EchoCase[] = [
  ...Object.entries(SPELLINGS).map(([why, spell]) => ({
    why: `a body ${why}`,
    echo: (secret: string) => ({ headers: [['content-type', 'text/plain']] as const, chunks: [`before ${spell(secret)} after`] }),
  })),
  { why: 'a body that is nothing else', echo: (secret) => ({ chunks: [secret] }) },
  {
    why: 'a body with a length',
    echo: (secret) => ({ headers: [['content-length', String(page(secret).length)]], chunks: [page(secret)] }),
  },
  { why: 'a body byte by byte', echo: (secret) => ({ chunks: bytes(page(secret)) }) },
  { why: 'a body in two pieces, cut within it', echo: (secret) => ({ chunks: [`x${secret.slice(0, 9)}`, `${secret.slice(9)}y`] }) },
  { why: 'a hundred times in a row', echo: (secret) => ({ chunks: [secret.repeat(100)] }) },
  {
    why: 'an error page',
    echo: (secret) => ({ status: 500, headers: [['content-type', 'text/html']], chunks: [`<h1>Bad token ${html(secret)}</h1>`] }),
  },
  {
    why: 'a refusal',
    echo: (secret) => ({
      status: 401,
      headers: [['www-authenticate', `Bearer error="${secret.replaceAll('"', '\\"')}"`]],
      chunks: [page(secret)],
    }),
  },
  { why: 'a reason phrase', echo: (secret) => ({ reason: `Bad ${secret}` }), isOld: true },
  { why: 'a header', echo: (secret) => ({ headers: [['x-echo', secret]] }) },
  { why: 'a header in the middle of others', echo: (secret) => ({ headers: [['x-debug', `auth=[Bearer ${secret}]; ok`]] }) },
  { why: 'a header in base64', echo: (secret) => ({ headers: [['authorization', `Basic ${base64(`me:${secret}`)}`]] }) },
  { why: 'a cookie', echo: (secret) => ({ headers: [['set-cookie', `session=${encodeURIComponent(secret)}; HttpOnly`]] }) },
  {
    why: 'the target of a redirect',
    echo: (secret) => ({ status: 302, headers: [['location', `https://other.example.com/?token=${encodeURIComponent(secret)}`]] }),
  },
  { why: 'an ETag', echo: (secret) => ({ headers: [['etag', `"${Buffer.from(secret).toString('hex')}"`]] }) },
  { why: 'a header of an answer without a body', echo: (secret) => ({ status: 204, headers: [['x-echo', secret]] }) },
  { why: 'the name of a header', echo: (secret) => ({ headers: [[`x-${Buffer.from(secret).toString('hex')}`, '1']] }) },
  { why: 'an interim answer', echo: (secret) => ({ early: `</${encodeURIComponent(secret)}>; rel=preload`, chunks: ['ok'] }) },
  { why: 'a trailer', echo: (secret) => ({ chunks: ['ok'], trailers: [['x-late', secret]] }) },
  { why: 'a trailer in base64', echo: (secret) => ({ chunks: ['ok'], trailers: [['x-late', base64(`x${secret}`)]] }) },
  { why: 'the name of a trailer', echo: (secret) => ({ chunks: ['ok'], trailers: [[`x-${Buffer.from(secret).toString('hex')}`, '1']] }) },
  ...Object.entries(CODINGS).flatMap(([name, code]): EchoCase[] => [
    { why: `a body in ${name}`, echo: (secret) => ({ headers: [['content-encoding', name]], chunks: [code(Buffer.from(page(secret)))] }) },
    {
      why: `a body in ${name}, byte by byte`,
      echo: (secret) => ({
        headers: [['content-encoding', name]],
        chunks: Array.from(code(Buffer.from(page(secret))), (byte) => Buffer.of(byte)),
      }),
    },
    {
      why: `base64 in ${name}`,
      echo: (secret) => ({ headers: [['content-encoding', name]], chunks: [code(Buffer.from(base64(`x${secret}`)))] }),
    },
    {
      why: `a body that says ${name} and is none`,
      refused: 'answer_not_scrubbable',
      echo: (secret) => ({ headers: [['content-encoding', name]], chunks: [page(secret)] }),
    },
  ]),
  {
    why: 'a body in deflate without its wrapping',
    echo: (secret) => ({ headers: [['content-encoding', 'deflate']], chunks: [deflateRawSync(page(secret))] }),
  },
  {
    why: 'a body in x-gzip, in capitals',
    echo: (secret) => ({ headers: [['content-encoding', 'X-GZIP']], chunks: [gzipSync(page(secret))] }),
  },
  {
    why: 'a body in gzip over br',
    echo: (secret) => ({ headers: [['content-encoding', 'br, gzip']], chunks: [gzipSync(brotliCompressSync(page(secret)))] }),
  },
  {
    why: 'a body in gzip of two members, cut within it',
    echo: (secret) => ({ headers: [['content-encoding', 'gzip']], chunks: [gzipSync(secret.slice(0, 9)), gzipSync(secret.slice(9))] }),
  },
  {
    why: 'a body in a coding that is unknown',
    refused: 'answer_not_scrubbable',
    echo: (secret) => ({ headers: [['content-encoding', 'rot13']], chunks: [page(secret)] }),
  },
  {
    why: 'a body in compress, which nobody speaks',
    refused: 'answer_not_scrubbable',
    echo: (secret) => ({ headers: [['content-encoding', 'compress']], chunks: [page(secret)] }),
  },
  {
    why: 'a body in gzip over gzip over gzip over gzip',
    refused: 'answer_not_scrubbable',
    echo: (secret) => ({
      headers: [['content-encoding', 'gzip, gzip, gzip, gzip']],
      chunks: [gzipSync(gzipSync(gzipSync(gzipSync(page(secret)))))],
    }),
  },
  {
    why: 'events, byte by byte',
    echo: (secret) => ({
      headers: [['content-type', 'text/event-stream']],
      chunks: bytes(`id: 1\ndata: ${JSON.stringify({ secret })}\n\ndata: ${secret}\n\n`),
    }),
  },
  {
    why: 'events in gzip',
    echo: (secret) => ({
      headers: [
        ['content-type', 'text/event-stream'],
        ['content-encoding', 'gzip'],
      ],
      chunks: [gzipSync(`data: ${secret}\n\n`)],
    }),
  },
  {
    why: 'a message of gRPC',
    echo: (secret) => ({
      headers: [['content-type', 'application/grpc']],
      chunks: [grpcMessage(`\n\x1a${secret}`)],
      trailers: [['grpc-status', '0']],
    }),
  },
  {
    why: 'a message of gRPC, byte by byte',
    echo: (secret) => ({
      headers: [['content-type', 'application/grpc+proto']],
      chunks: Array.from(grpcMessage(secret), (byte) => Buffer.of(byte)),
      trailers: [['grpc-status', '0']],
    }),
  },
  {
    why: 'an error of gRPC',
    echo: (secret) => ({
      headers: [['content-type', 'application/grpc']],
      trailers: [
        ['grpc-status', '16'],
        ['grpc-message', `bad token ${encodeURIComponent(secret)}`],
      ],
    }),
  },
  {
    why: 'details of an error of gRPC',
    echo: (secret) => ({
      headers: [['content-type', 'application/grpc']],
      trailers: [
        ['grpc-status', '16'],
        ['grpc-status-details-bin', base64(`xx${secret}`)],
      ],
    }),
  },
  {
    why: 'a message of gRPC that is compressed',
    refused: 'answer_not_scrubbable',
    echo: (secret) => ({
      headers: [
        ['content-type', 'application/grpc'],
        ['grpc-encoding', 'gzip'],
      ],
      chunks: [grpcMessage(gzipSync(secret).toString('latin1'), 1)],
      trailers: [['grpc-status', '0']],
    }),
  },
  {
    why: 'parts of a multipart body',
    echo: (secret) => ({
      headers: [['content-type', 'multipart/mixed; boundary=b']],
      chunks: [
        `--b\r\nContent-Transfer-Encoding: base64\r\n\r\n${wrapped(base64(`{"a": 1}, token: ${secret}, and more of it`), 76, '\r\n')}\r\n--b--`,
      ],
    }),
  },
]

/** Answers so. Works for both versions of HTTP. */
export async function answerEcho(
  response: ServerResponse,
  { status = 200, reason, headers = [], trailers = [], early, chunks = [] }: Echo,
): Promise<void> {
  if (early !== undefined) response.writeEarlyHints({ link: early })
  const fields = Object.fromEntries(headers)
  if (reason === undefined) response.writeHead(status, fields)
  else response.writeHead(status, reason, fields)
  for (const chunk of chunks) await new Promise<void>((resolve) => response.write(chunk, () => resolve()))
  if (trailers.length > 0) response.addTrailers(Object.fromEntries(trailers))
  response.end()
}
