import { CODE, ConnectionError, FRAME_BYTES_MAX, SETTING, WINDOW_BYTES_MAX } from './protocol.ts'

/** What a peer says of itself; of each the last that it said. */
export type PeerSettings = {
  headerTableSize?: number
  maxConcurrentStreams?: number
  initialWindowSize?: number
}

/** RFC 9113 §6.5.2. What is not known means nothing. @throws ConnectionError for values that cannot be */
export function readSettings(payload: Buffer, isFromClient: boolean): PeerSettings {
  if (payload.length % 6 !== 0) throw new ConnectionError(CODE.FRAME_SIZE_ERROR, 'SETTINGS of half a pair')
  const settings: PeerSettings = {}
  for (let at = 0; at < payload.length; at += 6) {
    const value = payload.readUInt32BE(at + 2)
    switch (payload.readUInt16BE(at)) {
      case SETTING.headerTableSize:
        settings.headerTableSize = value
        break
      case SETTING.maxConcurrentStreams:
        settings.maxConcurrentStreams = value
        break
      case SETTING.enablePush:
        check(value <= (isFromClient ? 1 : 0), CODE.PROTOCOL_ERROR)
        break
      case SETTING.maxFrameSize:
        // Frames here are never longer than what all must take.
        check(value >= FRAME_BYTES_MAX && value <= 0xff_ff_ff, CODE.PROTOCOL_ERROR)
        break
      case SETTING.initialWindowSize:
        check(value <= WINDOW_BYTES_MAX, CODE.FLOW_CONTROL_ERROR)
        settings.initialWindowSize = value
        break
      default:
    }
  }
  return settings
}

function check(isValid: boolean, code: number): void {
  if (!isValid) throw new ConnectionError(code, 'a setting that cannot be')
}
