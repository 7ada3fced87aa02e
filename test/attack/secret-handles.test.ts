import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { test } from 'node:test'
import { LIMITS } from '../../src/kernel/limits.ts'
import type { SecretSubject } from '../../src/wire/question.ts'
import { deny, evidenceFor } from '../support/approvals.ts'
import { PASSWORD, secretsSetting } from '../support/secrets.ts'

const KEY = 'POSTGRES_PROD_PASSWORD'
const KEPT: object = { secrets: [{ name: 'KEPT', source: 'vault:KEPT', resources: ['inject'] }] }
const print = (handle: string): object => ({ argv: ['sh', '-c', 'test -n "$X" && echo ran'], env: { X: `\${${handle}}` } })
const subjectOf = (question: { readonly subject: unknown }): SecretSubject => question.subject as SecretSubject

/** What an agent could tell names apart by. */
const withoutIds = (value: unknown): string => JSON.stringify(value).replaceAll(/"id":"[0-9a-f]+"/g, '"id"')

test('I66 a name that exists, one that does not, one that the policy keeps and one of another workspace are told apart by nothing that the agent sees', async () => {
  for (const answer of ['no', 'no with words', 'yes to what cannot be given', 'nobody'] as const) {
    const seen = new Set<string>()
    for (const scope of ['single-command', 'session', 'persisted'])
      for (const name of [KEY, 'NO_SUCH_NAME', 'KEPT', 'OF_ANOTHER']) {
        if (answer.startsWith('yes') && name === KEY) continue
        await using setting = await secretsSetting(KEPT, {
          vault: { [KEY]: PASSWORD, KEPT: 'kept-value', OF_ANOTHER: 'another-value' },
          kept: ['OF_ANOTHER'],
          isWatched: answer !== 'nobody',
        })
        const begun = await setting.begin(name, scope)
        const views: unknown[] = [begun]
        if (answer !== 'nobody') {
          const question = await setting.asked()
          views.push(
            await setting.call('request.await', { id: begun.id, wait: 0 }),
            question.risk.level,
            question.expiresAt - question.createdAt,
          )
          setting.desk.clock.pass(LIMITS.debounceMs)
          if (answer.startsWith('no'))
            await setting.desk.approvals.answer(
              question.id,
              { ...deny(question), ...(answer === 'no with words' && { message: 'ask me tomorrow' }) },
              evidenceFor(question.digest, 'T1'),
            )
          else await setting.yes(question)
        }
        const ended = await setting.ended(begun)
        assert.equal(ended.handle, undefined)
        seen.add(withoutIds([...views, ended]).replaceAll(/"(?:caution|dangerous)"/g, '"risk"'))
        assert.deepEqual(setting.reads, [], 'no value is read to answer')
      }
    assert.equal(seen.size, 1, [...seen].join('\n'))
  }
})

test('a yes to what does not exist is told word for word as a no is', async () => {
  await using setting = await secretsSetting()
  const first = await setting.begin('NO_SUCH_NAME', 'session')
  const denied = await setting.asked()
  setting.desk.clock.pass(LIMITS.debounceMs)
  await setting.desk.approvals.answer(denied.id, deny(denied), evidenceFor(denied.digest, 'T1'))
  const second = await setting.begin('NO_SUCH_NAME', 'session')
  const question = await setting.asked()
  assert.match(subjectOf(question).note, /there is no such secret: add it with sallyport secret set NO_SUCH_NAME, then allow/)
  await setting.yes(question)
  assert.equal(withoutIds(await setting.ended(second)), withoutIds(await setting.ended(first)))
})

test('what the operator adds while the question waits is given, and what the policy keeps is not, whatever is answered', async () => {
  await using setting = await secretsSetting(KEPT, { vault: { KEPT: 'kept-value' } })
  const late = await setting.begin('LATE', 'session')
  const question = await setting.asked()
  setting.vault.set('LATE', 'late-value')
  await setting.yes(question)
  assert.match((await setting.ended(late)).handle ?? '', /^sph_[a-z0-9]{32}$/)
  const kept = await setting.begin('KEPT', 'session')
  const asked = await setting.asked()
  assert.match(subjectOf(asked).note, /the policy keeps it for inject/)
  await setting.yes(asked)
  assert.equal((await setting.ended(kept)).error?.code, 'approval_denied')
})

test('I66 of many that use one handle for a single command at once, one runs', async () => {
  await using setting = await secretsSetting()
  const handle = await setting.handle(KEY, 'single-command')
  const views = await Promise.all(Array.from({ length: 8 }, () => setting.use(print(handle))))
  for (const _ of views) await setting.yes(await setting.asked())
  const ended = await Promise.all(views.map((view) => setting.ended(view)))
  assert.equal(ended.filter(({ status }) => status === 'done').length, 1)
  assert.equal(ended.filter(({ error }) => error?.code === 'handle_invalid').length, 7)
  assert.deepEqual([setting.wishes.length, setting.reads.length], [1, 1])
})

test('a handle for one command is left by a no, and used up by a command that does not start', async () => {
  await using setting = await secretsSetting(
    {},
    {
      starting: () => {
        throw new Error('no room')
      },
    },
  )
  const handle = await setting.handle(KEY, 'single-command')
  const denied = await setting.use(print(handle))
  const question = await setting.asked()
  setting.desk.clock.pass(LIMITS.debounceMs)
  await setting.desk.approvals.answer(question.id, deny(question), evidenceFor(question.digest, 'T1'))
  assert.equal((await setting.ended(denied)).error?.code, 'approval_denied')
  assert.deepEqual(setting.reads, [])
  assert.equal((await setting.used(print(handle))).error?.code, 'internal')
  assert.equal((await setting.ended(await setting.use(print(handle)))).error?.code, 'handle_invalid')
})

test('a value that cannot be had uses the handle up all the same, and why is the operator’s alone', async () => {
  await using setting = await secretsSetting()
  const handle = await setting.handle(KEY, 'single-command')
  setting.vault.set(KEY, 'short')
  const ended = await setting.used(print(handle))
  assert.equal(ended.error?.code, 'secret_unavailable')
  assert.doesNotMatch(JSON.stringify(ended), /"short"|characters/)
  setting.vault.set(KEY, PASSWORD)
  assert.equal((await setting.ended(await setting.use(print(handle)))).error?.code, 'handle_invalid')
  assert.deepEqual(setting.wishes, [])
})

test('I66 handles that never were, are used up, have ended, are another session’s or of one that is over are told the same', async () => {
  await using setting = await secretsSetting()
  const [own, old, foreign] = [
    await setting.handle(),
    await setting.handle(KEY, 'single-command'),
    await setting.handle(KEY, 'session', 's-2'),
  ]
  const spent = await setting.handle(KEY, 'single-command')
  assert.equal((await setting.used(print(spent))).status, 'done')
  setting.desk.clock.pass(LIMITS.handleSingleMs)
  const answers = new Set<string>()
  for (const handle of [`sph_${'a'.repeat(32)}`, old, foreign, spent])
    answers.add(withoutIds(await setting.ended(await setting.use(print(handle)))))
  await setting.requests.endSession('s-1')
  answers.add(withoutIds(await setting.ended(await setting.use(print(own)))))
  assert.equal(answers.size, 1, [...answers].join('\n'))
  assert.match([...answers][0] ?? '', /handle_invalid/)
  assert.equal(setting.wishes.length, 1)
  // Another session's is still its own.
  assert.equal((await setting.used(print(foreign), 's-2')).status, 'done')
})

test('a handle for a session ends after its hours, and with a lease that is revoked while somebody thinks about a use', async () => {
  await using setting = await secretsSetting()
  const handle = await setting.handle()
  const waiting = await setting.use(print(handle))
  const question = await setting.asked()
  setting.revoked.add('s-1')
  await setting.yes(question)
  assert.equal((await setting.ended(waiting)).error?.code, 'session_revoked')
  setting.revoked.clear()
  setting.desk.clock.pass(LIMITS.handleSessionMs)
  assert.equal((await setting.ended(await setting.use(print(handle)))).error?.code, 'handle_invalid')
  assert.deepEqual([setting.wishes, setting.reads], [[], []])
})

test('what the policy has taken back, or names another place for, is not had by a handle of before', async () => {
  await using setting = await secretsSetting({ secrets: [{ name: KEY, source: `vault:${KEY}`, resources: ['method:secret.request'] }] })
  const handle = await setting.handle()
  for (const entry of [
    { name: KEY, source: `vault:${KEY}`, resources: ['inject'] },
    { name: KEY, source: 'vault:OTHER', resources: ['method:secret.request'] },
  ]) {
    const before = setting.state.policy
    const waiting = await setting.use(print(handle))
    const question = await setting.asked()
    setting.state.policy = { secrets: [entry] }
    await setting.yes(question)
    assert.equal((await setting.ended(waiting)).error?.code, 'handle_invalid')
    setting.state.policy = before
  }
  assert.deepEqual(setting.reads, [])
  assert.equal((await setting.used(print(handle))).status, 'done')
})

test('where the policy permits it a handle is given without a question, and it is on record; each command is asked about all the same', async () => {
  await using setting = await secretsSetting({ secrets: [{ name: 'DB', source: `vault:${KEY}`, resources: ['method:secret.use_in'] }] })
  const { handle = '' } = await setting.ended(await setting.begin('DB', 'single-command'))
  assert.deepEqual(setting.desk.approvals.list(), [])
  assert.deepEqual(
    setting.events.map(({ event }) => event),
    ['secret_requested', 'secret_granted'],
  )
  assert.equal((await setting.used(print(handle))).status, 'done')
})

test('what the policy keeps under one name is kept under the name of its place as well, unless it is given out there too', async () => {
  const declared = (...resources: string[]): object => ({ name: 'API', source: `vault:${KEY}`, resources })
  await using setting = await secretsSetting({ secrets: [declared('inject')] })
  const earlier = await setting.begin('NO_SUCH_NAME', 'session')
  await setting.yes(await setting.asked())
  const begun = await setting.begin(KEY, 'session')
  const question = await setting.asked()
  assert.equal(subjectOf(question).state, 'kept')
  assert.match(subjectOf(question).note, /the policy keeps it, as API, for inject: allowing this gives nothing/)
  await setting.yes(question)
  assert.equal(withoutIds(await setting.ended(begun)), withoutIds(await setting.ended(earlier)))
  setting.state.policy = { secrets: [declared('inject'), { ...declared('method:secret.request'), name: 'FOR_HANDLES' }] }
  const handle = await setting.handle(KEY)
  setting.state.policy = { secrets: [declared('inject')] }
  assert.equal((await setting.ended(await setting.use(print(handle)))).error?.code, 'handle_invalid')
  assert.deepEqual(setting.reads, [])
})

test('a handle that nobody was asked about ends with the word of the policy that gave it, whatever the policy says instead', async () => {
  const declared = (...resources: string[]): object => ({ secrets: [{ name: KEY, source: `vault:${KEY}`, resources }] })
  await using setting = await secretsSetting(declared('method:secret.use_in'))
  const { handle = '' } = await setting.ended(await setting.begin(KEY, 'session'))
  const before = setting.state.policy
  for (const after of [{}, declared('method:secret.request'), declared('inject')]) {
    setting.state.policy = after
    assert.equal((await setting.ended(await setting.use(print(handle)))).error?.code, 'handle_invalid', JSON.stringify(after))
    setting.state.policy = before
  }
  assert.deepEqual([setting.desk.approvals.list(), setting.reads], [[], []])
  assert.equal((await setting.used(print(handle))).status, 'done')
})

test('an audit that cannot be written gives no handle, and starts nothing', async () => {
  for (const failing of ['secret_requested', 'secret_granted', 'use_decided']) {
    await using setting = await secretsSetting(
      {},
      {
        audit: (event) => (event.event === failing ? Promise.reject(new Error('full')) : Promise.resolve()),
      },
    )
    const begun = await setting.begin(KEY, 'session')
    if (failing !== 'secret_requested') await setting.yes(await setting.asked())
    const { handle } = await setting.ended(begun)
    assert.equal(handle === undefined, failing !== 'use_decided', failing)
    if (handle !== undefined) assert.equal((await setting.ended(await setting.use(print(handle)))).status, 'failed')
    assert.deepEqual([setting.wishes, setting.reads], [[], []])
  }
})

test('an answer for the session gives an equal request its own handle, and opens no other name, scope or session', async () => {
  await using setting = await secretsSetting({}, { vault: { [KEY]: PASSWORD, OTHER: 'other-value' } })
  const first = await setting.begin(KEY, 'single-command')
  const question = await setting.asked()
  setting.desk.clock.pass(LIMITS.debounceMs)
  const { digest } = question
  await setting.desk.approvals.answer(question.id, { digest, decision: 'allow', scope: 'session' }, evidenceFor(digest, 'T1'))
  const again = await setting.ended(await setting.begin(KEY, 'single-command', 's-1', 'for another reason'))
  assert.equal(again.status, 'done')
  assert.notEqual(again.handle, (await setting.ended(first)).handle)
  for (const [name, scope, session] of [
    ['OTHER', 'single-command', 's-1'],
    [KEY, 'session', 's-1'],
    [KEY, 'single-command', 's-2'],
  ] as const) {
    const view = await setting.begin(name, scope, session)
    await setting.asked()
    await setting.call('request.cancel', { id: view.id }, session)
  }
})

test('persisted changes the operator’s policy for the workspace by what was shown, and later requests ask nobody', async () => {
  await using setting = await secretsSetting()
  await mkdir(dirname(setting.policyFile), { recursive: true })
  await writeFile(setting.policyFile, '# mine\nversion: 1\nnetwork: {mode: restricted} # as it was\n', { mode: 0o600 })
  const view = await setting.begin(KEY, 'persisted')
  const question = await setting.asked()
  const { change } = subjectOf(question)
  assert.equal(question.risk.level, 'dangerous')
  assert.equal(question.tier, 'T1')
  assert.match(
    change?.diff ?? '',
    /@@\n # mine\n version: 1\n network: .*\n\+secrets:\n\+ {2}- name: POSTGRES_PROD_PASSWORD\n\+ {4}source: vault:POSTGRES_PROD_PASSWORD\n\+ {4}resources:\n\+ {6}- method:secret.use_in\n$/,
  )
  assert.doesNotMatch(readFileSync(setting.policyFile, 'utf8'), /secrets/)
  await setting.yes(question)
  assert.match((await setting.ended(view)).handle ?? '', /^sph_/)
  assert.match(readFileSync(setting.policyFile, 'utf8'), /^# mine\nversion: 1\nnetwork: \{ ?mode: restricted ?\} # as it was\nsecrets:/)
  const later = await setting.ended(await setting.begin(KEY, 'session', 's-2'), 's-2')
  assert.equal(later.status, 'done')
  assert.ok((await setting.proposals.list()).some(({ id }) => id === question.id))
})

test('a policy that was changed meanwhile is not overwritten, and a no leaves it as it is', async () => {
  await using setting = await secretsSetting()
  const view = await setting.begin(KEY, 'persisted')
  const question = await setting.asked()
  await mkdir(dirname(setting.policyFile), { recursive: true })
  await writeFile(setting.policyFile, 'version: 1\n', { mode: 0o600 })
  await setting.yes(question)
  assert.equal((await setting.ended(view)).error?.code, 'proposal_outdated')
  assert.equal(readFileSync(setting.policyFile, 'utf8'), 'version: 1\n')
})

test('names that are none are refused before anybody is asked', async () => {
  await using setting = await secretsSetting()
  for (const name of ['A B', '../x', 'A\u202e', '', 'vault:KEY', 'A'.repeat(200), '1A', 'A\0']) {
    const answer = await setting.begin(name, 'session').then(
      (view) => setting.ended(view),
      (error: unknown) => ({ error }),
    )
    assert.equal((answer.error as { code?: string }).code, 'request_invalid', JSON.stringify(name))
  }
  assert.deepEqual(setting.desk.approvals.list(), [])
  assert.equal(existsSync(setting.policyFile), false)
})
