import path from 'node:path'
import { ensureBaseImage } from './base-image.ts'
import { auditLines, playDemo, verifiedAudit, type Row } from './demo.ts'
import { playSession } from './demo-session.ts'
import { ensurePage } from './build-page.ts'
import { ensureEngine } from './engine.ts'
import { ensureImages } from './images.ts'
import { demoPlace, prepareDemo, type ComposeProject } from './project.ts'
import { ROOT, SetupError, main, step } from './steps.ts'

await main(async () => {
  await ensureEngine()
  const baseImage = await ensureBaseImage()
  await Promise.all([ensureImages(baseImage), ensurePage()])
  const project = await prepareDemo({ ...demoPlace(), baseImage })
  await step(`starting ${project.env.get('COMPOSE_PROJECT_NAME') ?? ''}`, (onLine) => up(project, onLine))
  const rows = await step('the demo, from inside the agent', () => playDemo(project))
  const log = await auditLines(project, rows.length)
  rows.push(...(await step('a session of the controller', playSession)))
  const verified = await verifiedAudit(project)
  console.log(
    `\n${table(rows)}\n\nThe audit of it (in the sidecar; values of secrets are never in it):\n\n${log.map((line) => `  ${line}`).join('\n')}`,
  )
  console.log(`\n  ${verified ?? 'THE CHAIN DOES NOT HOLD'}\n\n${nextSteps(project)}`)
  const failed = rows.filter((row) => !row.ok)
  if (failed.length > 0)
    console.error(`\n${failed.length} of ${rows.length} did not go as they must: ${failed.map((row) => row.what).join('; ')}`)
  return failed.length === 0 && verified !== undefined ? 0 : 1
})

async function up(project: ComposeProject, onLine: (line: string) => void): Promise<void> {
  const { code, stderr } = await project.compose(['up', '-d', '--wait', '--no-build', 'sidecar', 'agent', 'upstream'], { onLine })
  if (code === 0) return
  const logs = await project.compose(['logs', '--no-color', '--tail', '12'])
  throw new SetupError('the project did not come up', [...stderr.trim().split('\n').slice(-6), ...logs.stdout.trim().split('\n')])
}

function table(rows: readonly Row[]): string {
  const width = Math.max(...rows.map((row) => row.what.length))
  return rows.map(({ what, outcome, ok }) => `  ${ok ? '✓' : '✗'} ${what.padEnd(width)}  ${outcome}`).join('\n')
}

function nextSteps({ envFile }: ComposeProject): string {
  const usual = envFile === path.join(ROOT, '.env')
  const compose = `docker compose${usual ? '' : ` --env-file ${path.relative(ROOT, envFile)}`}`
  return [
    'The project keeps running. Next:',
    '',
    `  enter the agent    ${compose} exec agent bash        then: curl https://api.demo.internal/v1/me`,
    `  watch the log      ${compose} logs -f sidecar        (it also says when a changed policy or secret is in force)`,
    `  verify the audit   ${compose} exec sidecar sallyport audit verify /var/lib/sallyport/audit/audit.jsonl`,
    `  read the policy    policies/demo.yaml`,
    `  see it in a page   npx sallyport daemon                  then, in another terminal: npx sallyport open`,
    `  stop               ${compose} down                   (add -v to forget the CA and the audit)`,
  ].join('\n')
}
