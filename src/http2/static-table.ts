/** RFC 7541 Appendix A: names and values in turn; the first has index 1. */
export const STATIC_TABLE: readonly string[] = [
  [':authority', ''],
  [':method', 'GET'],
  [':method', 'POST'],
  [':path', '/'],
  [':path', '/index.html'],
  [':scheme', 'http'],
  [':scheme', 'https'],
  ...['200', '204', '206', '304', '400', '404', '500'].map((status) => [':status', status]),
  ['accept-charset', ''],
  ['accept-encoding', 'gzip, deflate'],
  ...[
    'accept-language',
    'accept-ranges',
    'accept',
    'access-control-allow-origin',
    'age',
    'allow',
    'authorization',
    'cache-control',
    'content-disposition',
    'content-encoding',
    'content-language',
    'content-length',
    'content-location',
    'content-range',
    'content-type',
    'cookie',
    'date',
    'etag',
    'expect',
    'expires',
    'from',
    'host',
    'if-match',
    'if-modified-since',
    'if-none-match',
    'if-range',
    'if-unmodified-since',
    'last-modified',
    'link',
    'location',
    'max-forwards',
    'proxy-authenticate',
    'proxy-authorization',
    'range',
    'referer',
    'refresh',
    'retry-after',
    'server',
    'set-cookie',
    'strict-transport-security',
    'transfer-encoding',
    'user-agent',
    'vary',
    'via',
    'www-authenticate',
  ].map((name) => [name, '']),
].flat()

export const STATIC_ENTRIES = STATIC_TABLE.length / 2

/** Lowest index of each name, and of each name with its value, written "name\0value". */
export const STATIC_INDEX: ReadonlyMap<string, number> = new Map(
  Array.from({ length: STATIC_ENTRIES }, (_, i): [string, number][] => {
    const [name = '', value = ''] = [STATIC_TABLE[i * 2], STATIC_TABLE[i * 2 + 1]]
    return value === '' ? [[name, i + 1]] : [[`${name}\0${value}`, i + 1]]
  })
    .flat()
    .concat([
      [':method', 2],
      [':path', 4],
      [':scheme', 6],
      [':status', 8],
      ['accept-encoding', 16],
    ]),
)
