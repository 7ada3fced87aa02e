declare module 'undici/lib/llhttp/llhttp_simd-wasm.js' {
  const wasm: Buffer<ArrayBuffer>
  export default wasm
}

/** What of WebAssembly is used; the whole would need the types of a browser. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Instance: new (
    module: object,
    imports: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
  ) => { readonly exports: unknown }
}

interface Buffer {
  /** Node's own, faster than `toString('latin1', start, end)`. */
  latin1Slice(start?: number, end?: number): string
}
