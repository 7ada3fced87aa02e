declare module 'undici/lib/llhttp/llhttp_simd-wasm.js' {
  const wasm: Buffer<ArrayBuffer>
  export default wasm
}

/** What of WebAssembly is used; the whole would need the types of a browser. */
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array)
  }
  class Instance {
    constructor(module: Module, imports: Readonly<Record<string, Readonly<Record<string, unknown>>>>)
    readonly exports: unknown
  }
  class Memory {
    readonly buffer: ArrayBuffer
  }
}

interface Buffer {
  /** Node's own, faster than `toString('latin1', start, end)`. */
  latin1Slice(start?: number, end?: number): string
}
