import type { ExplainedAnswers, ExplainedCredential, Explanation } from '../../policy/policy.ts'
import type { ExplainedView } from '../../wire/policies.ts'
import type { CommandExplanation } from './explain-command.ts'

type Rows = [label: string, text: string][]

/** What would become of a request, in words: for the command and the page. */
export function explainedRequest(explanation: Explanation): ExplainedView {
  const { decision: action, method, url, upstream, why, code, hint, rule, credential, placeholders = [], answers, notes } = explanation
  const rows: Rows = []
  if (upstream !== undefined) rows.push(['upstream', upstream])
  rows.push(['why', why])
  if (code !== undefined) rows.push(['code', code])
  if (hint !== undefined) rows.push(['hint', hint])
  if (rule !== undefined) rows.push(['rule', `${rule.id} (${rule.at})${rule.plane === 'control_plane' ? ', of the harness' : ''}`])
  if (credential !== undefined) rows.push(...credentialRows('credential', credential))
  for (const placeholder of placeholders) rows.push(...credentialRows('placeholder', placeholder))
  if (answers !== undefined) rows.push(['answers', describeAnswers(answers)])
  for (const note of notes) rows.push(['note', note])
  const candidates = explanation.candidates.map(({ id, at, action: does, matches, why: because }) => ({
    matches,
    text: `${does} ${id} (${at}): ${because}`,
  }))
  return { action, what: `${method} ${url}`, rows, candidates }
}

/** What would become of a command, in words. */
export function explainedCommand(explanation: CommandExplanation): ExplainedView {
  const { action, command, why, code, rule, nearMiss, tier, risk, hazards, workspaceCode, environment, hardened } = explanation
  const rows: Rows = [['why', why]]
  if (code !== undefined) rows.push(['code', code])
  if (rule !== undefined) rows.push(['rule', rule])
  if (nearMiss !== undefined) rows.push(['near miss', nearMiss])
  rows.push(['risk', risk.level], ...risk.reasons.map((reason): Rows[number] => ['', reason]))
  if (action === 'ask') rows.push(['presence', tier])
  if (workspaceCode) rows.push(['sandbox', 'it runs code of the workspace: without one it is asked about'])
  for (const { token, letter, why: reason } of hazards) rows.push(['hazard', `${letter} ${token}: ${reason}`])
  for (const [name, value] of Object.entries(environment)) rows.push(['environment', `${name}=${value}`])
  if (hardened !== undefined) rows.push(['runs as', hardened.join(' ')])
  return { action, what: command, rows, candidates: [] }
}

function credentialRows(label: string, { id, secret, place, also = [], oauth2, budget, at }: ExplainedCredential): Rows {
  const details = [...also.map((field) => `also ${field}`), oauth2, budget && `budget ${budget}`].filter((detail) => detail !== undefined)
  return [[label, `${id}: ${place}, secret ${secret} (${at})`], ...details.map((detail): Rows[number] => ['', detail])]
}

function describeAnswers({ scrub, secrets, accessTokens = [] }: ExplainedAnswers): string {
  const names = [...secrets, ...accessTokens.map((id) => `access tokens of ${id}`)].join(', ')
  switch (scrub) {
    case 'replace':
      return `${names} written over in them (scrub: replace)`
    case 'block':
      return `refused where ${names} would be in them (scrub: block)`
    case 'off':
      return `not searched for ${names} (scrub: off)`
  }
}
