/**
 * Methods that a request through the gate can have: those that its HTTP parser knows (a test holds the two together), but
 * for CONNECT and TRACE, which are never forwarded.
 */
export const METHODS: ReadonlySet<string> = new Set(
  `
  ACL BIND CHECKOUT COPY DELETE GET HEAD LINK LOCK M-SEARCH MERGE MKACTIVITY MKCALENDAR MKCOL MOVE NOTIFY OPTIONS PATCH
  POST PROPFIND PROPPATCH PURGE PUT QUERY REBIND REPORT SEARCH SOURCE SUBSCRIBE UNBIND UNLINK UNLOCK UNSUBSCRIBE
  `
    .trim()
    .split(/\s+/),
)
