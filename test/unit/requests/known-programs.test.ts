import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open } from '../../support/host-commands.ts'
import { requestsSetting } from '../../support/requests.ts'

/** Programs whose tables say what keeps them from a pager, a prompt, or settings of the machine. */
const KNOWN: readonly { argv: readonly [string, ...string[]]; variables: Readonly<Record<string, string>> }[] = [
  { argv: ['git', 'status'], variables: { GIT_PAGER: 'cat', PAGER: 'cat', GIT_TERMINAL_PROMPT: '0' } },
  { argv: ['gh', 'pr', 'view', '12'], variables: { GH_PAGER: 'cat', GH_PROMPT_DISABLED: '1' } },
  { argv: ['aws', 's3', 'ls'], variables: { AWS_PAGER: '' } },
  { argv: ['systemctl', 'status', 'cron'], variables: { SYSTEMD_PAGER: 'cat' } },
  { argv: ['journalctl', '--version'], variables: { SYSTEMD_PAGER: 'cat' } },
]

for (const { argv, variables } of KNOWN)
  test(`an agent's ${argv.join(' ')} runs when it is allowed, with the variables that are known to quieten it`, async () => {
    await using setting = await requestsSetting()
    await setting.write(`programs/${argv[0]}`, '#!/bin/sh\nexec env\n')
    Object.assign(setting.place.environment, { PATH: `${setting.root}/programs:${process.env['PATH']}` })
    const view = await setting.call('host.run', { argv, reason: 'to see' })
    const question = await setting.asked()
    await setting.yes(question)
    const { status, stdout = '', error } = await setting.ended(view)
    assert.deepEqual([status, error], ['done', undefined])
    const shown = question.subject.kind === 'command' ? question.subject.environment : {}
    for (const [name, value] of Object.entries(variables)) {
      assert.equal(shown[name], value, name)
      assert.ok(stdout.split('\n').includes(`${name}=${value}`), name)
    }
  })

test('a rule cannot add what a table may', async () => {
  const rule = { ...open('gh'), env: { GH_PAGER: 'less' } }
  await using setting = await requestsSetting({ host_commands: { mode: 'allowlist', allow: [rule] } })
  await assert.rejects(setting.call('host.run', { argv: ['gh', 'pr', 'list'] }), { code: 'policy_invalid' })
})
