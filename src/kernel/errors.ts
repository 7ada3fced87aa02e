import { REQUEST_ERRORS, type ErrorTable } from './request-errors.ts'

/**
 * Every code that the product answers with. `docs/ERRORS.md` is held to this table by a contract test.
 *
 * - `agent` codes go to an agent as problem+json (RFC 9457) with `status`, and into the audit.
 * - `operator` codes end a command with `exit`: 1 failed, 2 usage or bad configuration.
 */
export const ERRORS = {
  host_not_allowed: { to: 'agent', status: 403, means: 'No rule of the policy allows this host and port.' },
  denied_by_rule: { to: 'agent', status: 403, means: 'A rule denies this request, or no rule for the host allows its method and path.' },
  controller_unavailable: {
    to: 'agent',
    status: 403,
    means: 'A rule asks the operator first, or a credential is the controller’s to give, and no controller is there.',
  },
  session_revoked: { to: 'agent', status: 403, means: 'The lease of the session was revoked: nothing of it passes any more.' },
  approval_pending: { to: 'agent', status: 403, means: 'A rule asks the operator first, and there is no answer yet. Send the same again.' },
  approval_denied: { to: 'agent', status: 403, means: 'A rule asks the operator first, and the operator said no.' },
  approval_expired: { to: 'agent', status: 403, means: 'Nobody answered the question in time, which is a no.' },
  approval_cancelled: {
    to: 'agent',
    status: 403,
    means:
      'The question was withdrawn before it was answered, or its answer was not used: by who asked, by the end of the session or of the controller.',
  },
  approver_absent: {
    to: 'agent',
    status: 503,
    means: 'The operator would have to be asked, and nobody is watching: no page, no terminal, no notification.',
  },
  too_many_questions: { to: 'agent', status: 429, means: 'Too many questions of this session, or of all, wait for the operator.' },
  question_invalid: {
    to: 'agent',
    status: 400,
    means: 'What is asked cannot be put to the operator as it is: it is too long, or not Unicode.',
  },
  request_not_found: { to: 'agent', status: 404, means: 'The session has no request of this id that waits.' },
  policy_changed: { to: 'agent', status: 403, means: 'The operator changed the policy, and what was running is no longer allowed.' },
  server_name_missing: {
    to: 'agent',
    status: 421,
    means: 'A TLS connection that was not made through a proxy names no host (no SNI, or an encrypted one only). Answered by a TLS alert.',
  },
  route_unknown: { to: 'agent', status: 404, means: 'The gateway has no reverse route of this name.' },
  name_refused: {
    to: 'agent',
    status: 403,
    means: 'The name is set aside for local, private or metadata use, and the rule does not list addresses for it.',
  },
  address_refused: {
    to: 'agent',
    status: 403,
    means: 'The name leads to an address that is refused by class, and the rule does not list it in addresses.',
  },
  host_invalid: { to: 'agent', status: 400, means: 'The host is not spelled canonically, so it is not clear which host is meant.' },
  target_invalid: { to: 'agent', status: 400, means: 'The request target is not one that can be forwarded unchanged.' },
  path_not_canonical: { to: 'agent', status: 400, means: 'Rules look at paths of this host, and this path could be read in two ways.' },
  authority_mismatch: { to: 'agent', status: 400, means: 'The request target and its Host header name different hosts.' },
  misdirected_request: {
    to: 'agent',
    status: 421,
    means: 'The request names another host than its connection leads to.',
  },
  sni_mismatch: {
    to: 'agent',
    status: 421,
    means: 'The TLS handshake names another host than the tunnel was opened for. Answered by closing the connection.',
  },
  request_malformed: { to: 'agent', status: 400, means: 'The bytes are not a valid HTTP/1.1 request.' },
  head_too_large: { to: 'agent', status: 431, means: 'The request head has too many bytes or fields.' },
  head_timeout: { to: 'agent', status: 408, means: 'The request head, or a body that waits for its credential, did not arrive in time.' },
  method_refused: { to: 'agent', status: 405, means: 'The method is never forwarded (TRACE, or CONNECT inside a tunnel).' },
  upgrade_refused: { to: 'agent', status: 501, means: 'The request asks to upgrade to another protocol, which is not carried.' },
  transfer_coding_refused: { to: 'agent', status: 501, means: 'The request body has a transfer coding other than chunked.' },
  not_a_proxy_request: { to: 'agent', status: 400, means: 'The proxy port got a request for itself instead of one to forward.' },
  protocol_not_recognised: {
    to: 'agent',
    status: 403,
    means: 'The bytes inside the tunnel are neither TLS nor HTTP, or none came in time. Answered by closing the connection.',
  },
  socks_malformed: { to: 'agent', status: 400, means: 'The bytes on the SOCKS port are not a SOCKS5 handshake that is served here.' },
  lease_required: { to: 'agent', status: 407, means: 'The policy asks for the lease of the session, and none or a wrong one was given.' },
  unauthenticated: {
    to: 'agent',
    status: 401,
    means: 'The gateway wants the lease of the session as a bearer token, and none or a wrong one was given.',
  },
  request_invalid: { to: 'agent', status: 400, means: 'The request to the gateway is not what its method takes.' },
  proposal_invalid: {
    to: 'agent',
    status: 422,
    means: 'What is proposed is not valid, changes nothing, or is none that could be taken back.',
  },
  proposal_outdated: { to: 'agent', status: 409, means: 'The file that a proposal is about has changed since.' },
  not_found: { to: 'agent', status: 404, means: 'The gateway has nothing at this path.' },
  command_not_supported: { to: 'agent', status: 501, means: 'The SOCKS command is not CONNECT. BIND and UDP ASSOCIATE are not carried.' },
  secret_unavailable: { to: 'agent', status: 502, means: 'The credential for this request could not be obtained. Nothing was sent.' },
  secret_not_permitted: {
    to: 'agent',
    status: 403,
    means:
      'The policy does not let this method, route or tool use the secret, or its scope in the vault is another. It was given to nobody.',
  },
  token_exchange_failed: {
    to: 'agent',
    status: 502,
    means: 'The token server gave no access token for the credential of this request. Nothing was sent.',
  },
  placeholder_misplaced: {
    to: 'agent',
    status: 403,
    means: 'A placeholder stands where the policy does not swap it: at another host, or in another place of the request.',
  },
  own_credentials_refused: {
    to: 'agent',
    status: 403,
    means: 'The request carries a credential of its own, and the rule refuses those (own_credentials: deny).',
  },
  aws_signature_refused: {
    to: 'agent',
    status: 403,
    means: 'The request is not signed with the placeholder key by AWS Signature Version 4 for the region and service of the policy.',
  },
  body_unfit: {
    to: 'agent',
    status: 422,
    means: 'The credential belongs in the body, and the body is not one that it can be written into.',
  },
  body_too_large: {
    to: 'agent',
    status: 413,
    means: 'The credential belongs in the body or signs it, and the body is too large for that.',
  },
  budget_exhausted: { to: 'agent', status: 429, means: 'The budget of the credential in this session is used up, or that of this minute.' },
  secret_echoed: {
    to: 'agent',
    status: 502,
    means: 'The answer has a secret in it, and the rule refuses such answers or there were too many of them.',
  },
  answer_not_scrubbable: {
    to: 'agent',
    status: 502,
    means: 'The answer could have a secret in it and cannot be looked into: its coding is unknown, broken or expands without end.',
  },
  upstream_name_failed: { to: 'agent', status: 502, means: 'The name of the upstream could not be resolved.' },
  upstream_unreachable: { to: 'agent', status: 502, means: 'No connection to the upstream could be made, or it broke.' },
  upstream_tls_failed: {
    to: 'agent',
    status: 502,
    means: 'The certificate of the upstream could not be verified, or its TLS handshake failed. Nothing was sent.',
  },
  upstream_invalid: { to: 'agent', status: 502, means: 'The answer of the upstream is not valid HTTP/1.1.' },
  upstream_proxy_failed: { to: 'agent', status: 502, means: 'The proxy that leads to the upstreams could not be used, or refused.' },
  upstream_timeout: { to: 'agent', status: 504, means: 'The upstream did not answer in time.' },
  agent_gone: { to: 'agent', status: 499, means: 'The agent closed the connection before the answer was complete.' },
  audit_unavailable: { to: 'agent', status: 503, means: 'The audit cannot be written, so nothing is forwarded.' },
  host_busy: { to: 'agent', status: 429, means: 'Too many requests to this host are under way. Try again shortly.' },
  overloaded: { to: 'agent', status: 503, means: 'A limit of the proxy is reached. Try again shortly.' },
  internal: { to: 'agent', status: 500, means: 'A fault of Sallyport itself. Nothing further was forwarded.' },

  usage: { to: 'operator', exit: 2, means: 'The command line is wrong.' },
  config_invalid: { to: 'operator', exit: 2, means: 'A setting (flag or environment variable) has a value that cannot be used.' },
  policy_invalid: { to: 'operator', exit: 2, means: 'A policy file has errors. Each is listed with file and line.' },
  policy_not_found: { to: 'operator', exit: 2, means: 'A policy file, or one that it extends, does not exist or cannot be read.' },
  secret_missing: { to: 'operator', exit: 2, means: 'A secret that the policy names cannot be found in its source.' },
  secret_outdated: { to: 'operator', exit: 1, means: 'A secret was changed since the operator looked at it. Nothing was changed.' },
  secret_invalid: { to: 'operator', exit: 2, means: 'A secret has a value that cannot be written into a header.' },
  ca_invalid: {
    to: 'operator',
    exit: 1,
    means: 'The certificate authority on disk is damaged, foreign or readable by others. It is never replaced silently.',
  },
  ca_file_invalid: { to: 'operator', exit: 2, means: 'A file of extra certificate authorities cannot be read or is not PEM.' },
  listen_failed: { to: 'operator', exit: 1, means: 'A listener could not be opened on its address and port.' },
  audit_open_failed: { to: 'operator', exit: 1, means: 'The audit file cannot be opened or continued.' },
  audit_broken: { to: 'operator', exit: 1, means: 'The hash chain of an audit file does not hold: it was altered, cut or damaged.' },
  audit_key_invalid: {
    to: 'operator',
    exit: 1,
    means: 'The key that signs the audit is damaged, gone or not the one whose signatures are kept. It is never replaced silently.',
  },
  engine_unavailable: { to: 'operator', exit: 1, means: 'The Docker Engine does not answer, or not to this user.' },
  subnet_exhausted: { to: 'operator', exit: 1, means: 'No free subnet was found for the jail network.' },
  control_unreachable: { to: 'operator', exit: 1, means: 'The sidecar could not reach its controller, or got no answer from it in time.' },
  control_refused: { to: 'operator', exit: 1, means: 'The controller does not take the lease that the sidecar showed.' },
  control_busy: { to: 'operator', exit: 1, means: 'Another sidecar is connected to the controller for this session.' },
  control_version_mismatch: { to: 'operator', exit: 1, means: 'Sidecar and controller are of different versions.' },
  control_broken: { to: 'operator', exit: 1, means: 'One side of the control channel broke its rules, and the connection was closed.' },
  control_socket_invalid: {
    to: 'operator',
    exit: 1,
    means: 'The folder of a control socket cannot be used: its path is too long, it is not ours, or it was replaced.',
  },
  sidecar_not_ready: { to: 'operator', exit: 1, means: 'The sidecar did not have its secrets and answer in time.' },
  sidecar_unreachable: { to: 'operator', exit: 1, means: 'The sidecar of a session is not connected, or did not answer in time.' },
  vault_missing: { to: 'operator', exit: 1, means: 'There is no vault at this place yet.' },
  vault_exists: { to: 'operator', exit: 1, means: 'There is a vault already where one was to be made.' },
  vault_locked: {
    to: 'operator',
    exit: 1,
    means: 'What unlocks the vault could not be had: no key file, no keyring entry or no passphrase.',
  },
  vault_key_wrong: {
    to: 'operator',
    exit: 1,
    means: 'The passphrase or key is not the one that the vault was locked with. Nothing was changed.',
  },
  vault_corrupt: {
    to: 'operator',
    exit: 1,
    means: 'The vault, or a secret in it, was altered, cut or damaged, or is something else. It is never replaced silently.',
  },
  vault_newer: { to: 'operator', exit: 1, means: 'The vault was written by a newer version of Sallyport. Nothing was changed.' },
  vault_busy: { to: 'operator', exit: 1, means: 'Another process kept the vault for too long. Nothing was changed.' },
  vault_write_failed: {
    to: 'operator',
    exit: 1,
    means: 'The vault could not be written, as on a full disk. What it held before it still holds.',
  },
  vault_unsafe: {
    to: 'operator',
    exit: 1,
    means: 'The vault, its folder or a file with its key belongs to another user, lets others in, or is a link.',
  },
  vault_full: { to: 'operator', exit: 1, means: 'The vault would hold more secrets than its limit. Nothing was changed.' },
  keyring_unavailable: {
    to: 'operator',
    exit: 1,
    means: 'There is no keyring of the operating system that could keep the key of the vault.',
  },
  sealed_invalid: {
    to: 'operator',
    exit: 1,
    means: 'An exported file cannot be opened: its passphrase is another one, or it was altered.',
  },
  import_conflict: {
    to: 'operator',
    exit: 1,
    means: 'The vault has other values for names of the file, and they are not older. Nothing was imported.',
  },
  input_ended: { to: 'operator', exit: 1, means: 'What was asked for at the terminal was not given.' },
  daemon_running: { to: 'operator', exit: 1, means: 'Another daemon works on this home already.' },
  provider_cannot: {
    to: 'operator',
    exit: 1,
    means: 'The place where a secret is kept cannot do this: it is only read, or it lists nothing.',
  },
  lease_invalid: { to: 'operator', exit: 1, means: 'A lease is not valid. Only the class of the reason is said.' },
  lease_key_invalid: {
    to: 'operator',
    exit: 1,
    means: 'The key of the leases is damaged, foreign or readable by others. It is never replaced silently.',
  },
  policy_change_invalid: {
    to: 'operator',
    exit: 2,
    means: 'A change of a policy cannot be made as it is asked for: the layer, the file, or what it would say is none that fits.',
  },
  policy_file_changed: {
    to: 'operator',
    exit: 1,
    means:
      'The policy file, or what the change would make of it, is another than it was when the change was looked at. Nothing was changed.',
  },
  policy_untrusted: {
    to: 'operator',
    exit: 2,
    means: 'The policy that a workspace brings itself says more than that something is denied or asked about, and is not trusted.',
  },
  trust_invalid: { to: 'operator', exit: 1, means: 'The file of trusted workspace policies is damaged, foreign or open to others.' },
  daemon_unavailable: { to: 'operator', exit: 1, means: 'The daemon does not answer at its socket, or not to this user.' },
  engine_refused: { to: 'operator', exit: 1, means: 'The Docker Engine refused what it was asked, or answered with something else.' },
  image_missing: { to: 'operator', exit: 1, means: 'The engine does not have the image, and it could not be pulled.' },
  config_prohibited: {
    to: 'operator',
    exit: 2,
    means: 'A setting, mount, variable or image would undo what holds the agent. It is refused by name, with the reason.',
  },
  session_unverified: {
    to: 'operator',
    exit: 1,
    means: 'A container is not what was asked for. Each difference is listed; the session was ended and nothing of it runs.',
  },
  session_not_found: { to: 'operator', exit: 1, means: 'There is no session of this id or name.' },
  session_not_running: { to: 'operator', exit: 1, means: 'The session, or its agent, does not run.' },
  forward_refused: { to: 'operator', exit: 1, means: 'Nothing in the session takes connections on this port.' },
  state_invalid: {
    to: 'operator',
    exit: 1,
    means: 'The file that sessions are recorded in is damaged, or is of a newer version. It is never replaced silently.',
  },
  workspace_refused: {
    to: 'operator',
    exit: 2,
    means: 'The folder cannot be given to an agent as its workspace, or not as the policy asks.',
  },
  workspace_suspect: {
    to: 'operator',
    exit: 1,
    means: 'What decides what git executes in the workspace is not as it was. Nothing of the host runs in it until somebody has looked.',
  },
  stream_lost: { to: 'operator', exit: 1, means: 'The stream to or from a session broke off, or was not one of this protocol.' },
  policy_exists: { to: 'operator', exit: 1, means: 'There is a policy for this workspace already. It is never overwritten unasked.' },
  selftest_failed: { to: 'operator', exit: 1, means: 'A way out of the session is open, or could not be tried. Its agent is not started.' },
  ...REQUEST_ERRORS,
} as const satisfies ErrorTable

export type ErrorCode = keyof typeof ERRORS
/** Codes that an agent may see. */
export type RefusalCode = { [C in ErrorCode]: (typeof ERRORS)[C]['to'] extends 'agent' ? C : never }[ErrorCode]

/** Why a request is refused, for the agent and the audit. A value, not an exception. Never holds a secret. */
export type Refusal = {
  readonly code: RefusalCode
  /** One sentence with the offending value. */
  readonly message: string
  /** What to do about it. */
  readonly hint?: string
  /** Id of the rule that decided, where one did. */
  readonly rule?: string
  /** After so long the same may pass. */
  readonly retryAfterMs?: number
}

/** An error with a code of the table, a message with the offending value (never a secret) and a hint that says what to do. */
export class SallyportError extends Error {
  readonly code: ErrorCode
  readonly hint: string | undefined
  /** After so long the same may pass. */
  readonly retryAfterMs: number | undefined

  constructor(code: ErrorCode, message: string, options: { hint?: string; cause?: unknown; retryAfterMs?: number } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'SallyportError'
    this.code = code
    this.hint = options.hint
    this.retryAfterMs = options.retryAfterMs
  }

  /** Exit code of a command that ends with this error. */
  get exit(): 1 | 2 {
    const entry = ERRORS[this.code]
    return entry.to === 'operator' ? entry.exit : 1
  }
}

/** The `code` of a system error (`ENOSPC`, `ECONNREFUSED`), or its name. */
export function codeOf(error: unknown): string {
  if (error instanceof Error) return 'code' in error && typeof error.code === 'string' ? error.code : error.name
  return String(error)
}
