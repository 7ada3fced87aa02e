import { once } from 'node:events'
import path from 'node:path'
import {
  Client,
  Metadata,
  Server,
  ServerCredentials,
  status,
  type ChannelCredentials,
  type ClientOptions,
  type ServiceDefinition,
  type handleBidiStreamingCall,
  type handleClientStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
} from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'
import type { Place } from './upstream.ts'

/** The message of echo.proto. */
export type Text = { readonly text: string; readonly data: Buffer }

export type GrpcUpstream = AsyncDisposable & {
  readonly port: number
  /** Each call's name and metadata, in order. */
  readonly calls: readonly { readonly method: string; readonly metadata: Metadata }[]
  /** Resolves when the next call of `Wait` is cancelled from the client's side. */
  nextCancelled(): Promise<void>
}

const ECHO = loadSync(path.join(import.meta.dirname, 'echo.proto'), { defaults: true })['sallyport.test.Echo'] as ServiceDefinition

/** A gRPC server over TLS on loopback. Trailers of every answer have `x-echo: METHOD`. */
export async function openGrpcUpstream(tls: { cert: string; key: string }, place: Place): Promise<GrpcUpstream> {
  const calls: { method: string; metadata: Metadata }[] = []
  const cancelled = new EventTarget()
  const server = new Server({ 'grpc.max_receive_message_length': 16_000_000 })
  const trailers = (method: string): Metadata => {
    const metadata = new Metadata()
    metadata.set('x-echo', method)
    return metadata
  }
  const saw = (method: string, metadata: Metadata): Metadata => {
    calls.push({ method, metadata })
    return trailers(method)
  }
  const say: handleUnaryCall<Text, Text> = (call, answer) => {
    const tail = saw('Say', call.metadata)
    const head = new Metadata()
    head.set('x-head', 'early')
    call.sendMetadata(head)
    answer(null, call.request, tail)
  }
  const repeat: handleServerStreamingCall<Text, Text> = (call) => {
    const tail = saw('Repeat', call.metadata)
    for (let n = 1; n <= Number(call.request.text); n++) call.write({ text: String(n), data: call.request.data })
    call.end(tail)
  }
  const collect: handleClientStreamingCall<Text, Text> = (call, answer) => {
    const tail = saw('Join', call.metadata)
    const texts: string[] = []
    let bytes = 0
    call.on('data', ({ text, data }: Text) => {
      texts.push(text)
      bytes += data.length
    })
    call.on('end', () => answer(null, { text: `${texts.join(',')} ${bytes}`, data: Buffer.alloc(0) }, tail))
  }
  const talk: handleBidiStreamingCall<Text, Text> = (call) => {
    const tail = saw('Talk', call.metadata)
    call.on('data', (message: Text) => call.write({ ...message, text: `${message.text}!` }))
    call.on('end', () => call.end(tail))
  }
  const refuse: handleUnaryCall<Text, Text> = (call, answer) => {
    const metadata = saw('Refuse', call.metadata)
    answer({ code: status.FAILED_PRECONDITION, details: 'not today: 100 %, ü', metadata })
  }
  const wait: handleUnaryCall<Text, Text> = (call) => {
    saw('Wait', call.metadata)
    call.on('cancelled', () => cancelled.dispatchEvent(new Event('cancelled')))
  }
  server.addService(ECHO, { Say: say, Repeat: repeat, Join: collect, Talk: talk, Refuse: refuse, Wait: wait })
  const credentials = ServerCredentials.createSsl(null, [{ cert_chain: Buffer.from(tls.cert), private_key: Buffer.from(tls.key) }])
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`${place.host}:${place.port}`, credentials, (error, bound) => (error ? reject(error) : resolve(bound)))
  })
  return {
    port,
    calls,
    nextCancelled: () => once(cancelled, 'cancelled').then(() => undefined),
    [Symbol.asyncDispose]: async () => server.forceShutdown(),
  }
}

export type Answered = { readonly message: Text; readonly metadata: Metadata; readonly trailers: Metadata }

/** A client of echo.proto. What its calls reject with is grpc-js's ServiceError. */
export function openGrpcClient(target: string, credentials: ChannelCredentials, options: ClientOptions = {}) {
  const client = new Client(target, credentials, { 'grpc.max_receive_message_length': 16_000_000, ...options })
  const method = (name: string) => {
    const found = ECHO[name]
    if (found === undefined) throw new Error(`echo.proto has no ${name}`)
    return [found.path, found.requestSerialize, found.responseDeserialize as (bytes: Buffer) => Text] as const
  }
  const text = (value: string, data = Buffer.alloc(0)): Text => ({ text: value, data })
  return {
    text,
    unary: (name: string, message: Text, deadlineMs = 20_000): Promise<Answered> =>
      answered((done) => client.makeUnaryRequest(...method(name), message, new Metadata(), { deadline: Date.now() + deadlineMs }, done)),
    join: (messages: readonly Text[]): Promise<Answered> =>
      answered((done) => {
        const call = client.makeClientStreamRequest(...method('Join'), new Metadata(), {}, done)
        for (const message of messages) call.write(message)
        call.end()
        return call
      }),
    repeat: (message: Text) => client.makeServerStreamRequest(...method('Repeat'), message, new Metadata(), {}),
    talk: () => client.makeBidiStreamRequest(...method('Talk'), new Metadata(), {}),
    [Symbol.dispose]: () => client.close(),
  }
}

function answered(
  start: (done: (error: Error | null, message?: Text) => void) => {
    on(event: 'metadata', listener: (metadata: Metadata) => void): unknown
    on(event: 'status', listener: (status: { metadata: Metadata }) => void): unknown
  },
): Promise<Answered> {
  return new Promise((resolve, reject) => {
    let message: Text | undefined
    let metadata = new Metadata()
    const call = start((error, value) => (error ? reject(error) : void (message = value)))
    call.on('metadata', (head) => void (metadata = head))
    call.on('status', ({ metadata: trailers }) => message && resolve({ message, metadata, trailers }))
  })
}
