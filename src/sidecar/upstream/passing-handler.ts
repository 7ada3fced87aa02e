import type { UpstreamController, UpstreamHandler } from './upstream.ts'

type Of<Name extends keyof UpstreamHandler> = Parameters<Required<UpstreamHandler>[Name]>

/** Passes everything on: what is to be different is overridden. */
export class PassingHandler implements UpstreamHandler {
  readonly #handler: UpstreamHandler

  constructor(handler: UpstreamHandler) {
    this.#handler = handler
  }

  onRequestStart(...args: Of<'onRequestStart'>): void {
    this.#handler.onRequestStart?.(...args)
  }

  onBodySent(chunk: Buffer): void {
    this.#handler.onBodySent?.(chunk)
  }

  onRequestSent(): void {
    this.#handler.onRequestSent?.()
  }

  onRequestUpgrade(...args: Of<'onRequestUpgrade'>): void {
    this.#handler.onRequestUpgrade?.(...args)
  }

  onResponseStart(...args: Of<'onResponseStart'>): void {
    this.#handler.onResponseStart?.(...args)
  }

  onResponseData(controller: UpstreamController, chunk: Buffer): void {
    this.#handler.onResponseData?.(controller, chunk)
  }

  onResponseEnd(...args: Of<'onResponseEnd'>): void {
    this.#handler.onResponseEnd?.(...args)
  }

  onResponseError(controller: UpstreamController, error: Error): void {
    this.#handler.onResponseError?.(controller, error)
  }
}
