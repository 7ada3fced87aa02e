import type { Duplex } from 'node:stream'
import type { UpstreamController, UpstreamHandler } from './upstream.ts'

/** Passes everything on: what is to be different is overridden. */
export class PassingHandler implements UpstreamHandler {
  readonly #handler: UpstreamHandler

  constructor(handler: UpstreamHandler) {
    this.#handler = handler
  }

  onRequestStart(controller: UpstreamController): void {
    this.#handler.onRequestStart(controller)
  }

  onBodySent(bytes: number): void {
    this.#handler.onBodySent(bytes)
  }

  onRequestSent(): void {
    this.#handler.onRequestSent()
  }

  onRequestUpgrade(controller: UpstreamController, status: number, socket: Duplex): void {
    this.#handler.onRequestUpgrade(controller, status, socket)
  }

  onResponseStart(controller: UpstreamController, status: number, reason: string): void {
    this.#handler.onResponseStart(controller, status, reason)
  }

  onResponseData(controller: UpstreamController, chunk: Buffer): void {
    this.#handler.onResponseData(controller, chunk)
  }

  onResponseEnd(controller: UpstreamController): void {
    this.#handler.onResponseEnd(controller)
  }

  onResponseError(controller: UpstreamController, error: Error): void {
    this.#handler.onResponseError(controller, error)
  }
}
