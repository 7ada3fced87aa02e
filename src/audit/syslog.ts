/** Facility "log audit" (RFC 5424 §6.2.1). */
const FACILITY = 13
const WARNING = 4
const NOTICE = 5

/**
 * A line of an audit as a message of syslog (RFC 5424): the event as MSGID, the line itself as MSG. It is ASCII as the line is.
 * @param hostname of this machine
 */
export function syslogMessage(line: string, hostname: string, processId: number): string {
  const time = /"time":"(\d{4}-[^"]{15,25})"/.exec(line)?.[1] ?? '-'
  const event = /"event":"([a-z_]{1,32})"/.exec(line)?.[1] ?? '-'
  const severity = /"decision":"deny"/.test(line) ? WARNING : NOTICE
  const host = hostname.replace(/[^!-~]/g, '').slice(0, 255) || '-'
  return `<${FACILITY * 8 + severity}>1 ${time} ${host} sallyport ${processId} ${event} - ${line}`
}
