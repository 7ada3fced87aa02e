/** Codes of what agents ask of the host, of questions and of who answers them. */
export const REQUEST_ERRORS = {
  request_too_large: { to: 'agent', status: 413, means: 'The request to the gateway is larger than its method takes.' },
  media_type_refused: { to: 'agent', status: 415, means: 'The body of a request to the gateway is not of the type application/json.' },
  verb_not_allowed: { to: 'agent', status: 405, means: 'The gateway has something at this path, and not for this HTTP method.' },
  rate_limited: { to: 'agent', status: 429, means: 'This method of the gateway was called too often. Try again after Retry-After.' },
  command_not_allowed: {
    to: 'agent',
    status: 403,
    means: 'The policy denies this host command, or it is of a class that nothing can allow.',
  },
  too_many_siblings: { to: 'agent', status: 429, means: 'As many containers run beside the agent as a session may have.' },
  sibling_refused: {
    to: 'agent',
    status: 422,
    means: 'What is to run beside the agent cannot: its command, a variable, a file or a folder.',
  },
  shell_missing: {
    to: 'agent',
    status: 422,
    means: 'The image has no /bin/sh, by which secrets are handed to a program beside the agent.',
  },
  command_disabled: { to: 'agent', status: 403, means: 'The policy has host commands switched off.' },
  terminal_refused: {
    to: 'operator',
    exit: 1,
    means: 'A terminal of the page was not opened: its ticket was used, is too old or unknown, or there are too many.',
  },
  login_required: { to: 'operator', exit: 1, means: 'The page is not logged in: its link was used or is too old, or its login has ended.' },
  origin_refused: {
    to: 'operator',
    exit: 1,
    means: 'A request to the page’s listener is not one of the operator’s own page, and was not looked at.',
  },
  origin_not_allowed: {
    to: 'agent',
    status: 403,
    means: 'A web page of another origin calls the gate’s tools. Nothing of it was looked at.',
  },
  login_not_found: { to: 'operator', exit: 1, means: 'No page is logged in by this id.' },
  passkey_not_found: { to: 'operator', exit: 1, means: 'No passkey is registered by this id.' },
  page_off: { to: 'operator', exit: 1, means: 'The daemon has no page: it was started without one.' },
  terminal_unsafe: {
    to: 'operator',
    exit: 1,
    means: 'The terminal is one that an agent is attached to, or none: nothing is answered there.',
  },
  presence_failed: {
    to: 'operator',
    exit: 1,
    means: 'It was not proven that the operator is there: wrong or too weak a proof, or one that cannot be had now. Nothing was decided.',
  },
  audit_event_not_found: { to: 'operator', exit: 1, means: 'The audit has nothing of this id.' },
  question_not_found: { to: 'operator', exit: 1, means: 'There is no question of this id.' },
  question_settled: {
    to: 'operator',
    exit: 1,
    means: 'The question is answered, expired or withdrawn already, or just being answered. Nothing was changed.',
  },
  question_claimed: { to: 'operator', exit: 1, means: 'Somebody else is at this question. Denying it is possible all the same.' },
  digest_mismatch: {
    to: 'operator',
    exit: 1,
    means: 'The answer is not for this question as it was shown: its digest is another one. Nothing was changed.',
  },
  presence_required: {
    to: 'operator',
    exit: 1,
    means: 'Allowing this needs a stronger proof that the operator is there. Nothing was changed.',
  },
  answered_too_soon: {
    to: 'operator',
    exit: 1,
    means: 'The answer came so soon after the question that it was meant for something else. Nothing was changed: look, and answer again.',
  },
  answer_invalid: { to: 'operator', exit: 2, means: 'The answer does not fit its question: its scope, rule or end. Nothing was changed.' },
  approvals_invalid: {
    to: 'operator',
    exit: 1,
    means: 'The file of the questions is damaged, foreign, open to others or of a newer version. It is never replaced silently.',
  },
  approvals_write_failed: {
    to: 'operator',
    exit: 1,
    means: 'A question or its answer could not be written down, as on a full disk. Nothing runs by it.',
  },
  command_invalid: {
    to: 'agent',
    status: 400,
    means: 'The host command cannot be run as it is: its program, folder or arguments are not what they must be.',
  },
  executable_changed: {
    to: 'agent',
    status: 409,
    means: 'What the host command would run is not any more what was looked at. Nothing ran.',
  },
  command_timed_out: { to: 'agent', status: 504, means: 'The host command took too long and was ended.' },
  command_cancelled: { to: 'agent', status: 499, means: 'The command was called off and ended.' },
  command_not_started: { to: 'agent', status: 500, means: 'The program of the host command could not be started.' },
  sandbox_unavailable: {
    to: 'agent',
    status: 403,
    means: 'The host command may run only in a sandbox, and there is none on this machine.',
  },
  handle_invalid: {
    to: 'agent',
    status: 403,
    means: 'A handle is none that this session can use now: it never was one, is used up, has ended, or is another session’s.',
  },
  template_invalid: {
    to: 'agent',
    status: 400,
    means: 'A text with handles in it, or the place that it is for, is not one that a value can be written into.',
  },
  command_out_of_memory: { to: 'agent', status: 500, means: 'The command needed more memory than its container has, and was ended.' },
  output_exceeded: { to: 'agent', status: 413, means: 'The command wrote more to /output than it may, and was ended.' },
  notice_failed: { to: 'operator', exit: 1, means: 'A notice of a question could not be given by one of the ways of notify.yaml.' },
  mcp_config_invalid: {
    to: 'operator',
    exit: 2,
    means: 'What mcp.json or a policy says of MCP servers cannot be used: a server is not what it must be, or a secret has no value.',
  },
  mcp_config_outdated: {
    to: 'operator',
    exit: 1,
    means: 'The file mcp.json has changed since it was read: what was to be written over it is not written.',
  },
  mcp_server_unknown: { to: 'agent', status: 404, means: 'The session has no MCP server of that name that the gate stands before.' },
  mcp_server_failed: { to: 'agent', status: 502, means: 'The MCP server could not be started, ended, or said what is no message.' },
} as const satisfies ErrorTable

/** `agent` codes with the status of HTTP, `operator` codes with the exit code of a command. */
export type ErrorTable = Readonly<Record<string, { means: string } & ({ to: 'agent'; status: number } | { to: 'operator'; exit: 1 | 2 })>>
