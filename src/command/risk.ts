import type { CommandHazard } from '../wire/command.ts'
import { describeClass, programClass, programName } from '../wire/programs.ts'
import type { Risk } from '../wire/question.ts'
import { isReadOnly, tableOf } from './hazards/hazards.ts'

type Level = Risk['level']
type Reason = { readonly level: Level; readonly reason: string }

const LEVELS: readonly Level[] = ['safe', 'caution', 'dangerous']
const REASONS_MAX = 32

/** What makes a form dangerous that would be a matter of care else. By program, and what its arguments look like as one line. */
const DANGEROUS: readonly { readonly program: RegExp; readonly line: RegExp; readonly reason: string }[] = [
  { program: /^rm$/, line: / -\w*[rRf]| --(?:rec|for|no-p)/, reason: 'it deletes whole folders, or unasked' },
  { program: /^(?:sudo|doas|su|pkexec|runuser|runas)$/, line: /^/, reason: 'it acts with the rights of another' },
  { program: /^(?:dd|mkfs.*|fdisk|parted|wipefs|shred|truncate|mkswap|blkdiscard)$/, line: /^/, reason: 'it writes over what is there' },
  {
    program: /^(?:chmod|chown|chgrp)$/,
    line: / -\w*R| --rec|\b0?777\b|\+\w*s/,
    reason: 'it changes rights of whole folders, or for everybody',
  },
  {
    program: /^git$/,
    line: /\bpush\b.* (?:-\w*[fd]|--(?:f|de|mi|pru))|\bpush\b.* [+:]|\bclean\b|\breset\b.* --hard|\bfilter-branch\b|\bupdate-ref\b/,
    reason: 'it throws work away, here or for others',
  },
  { program: /^(?:kill|pkill|killall)$/, line: /^/, reason: 'it ends processes' },
  { program: /^find$/, line: / -(?:delete|exec|execdir|ok|okdir|fprint)/, reason: 'it deletes, or runs a program on what it finds' },
  { program: /^(?:shutdown|reboot|halt|poweroff|init)$/, line: /^/, reason: 'it stops the machine' },
  { program: /^(?:terraform|tofu|pulumi|cdk)$/, line: /\b(?:apply|destroy|up)\b/, reason: 'it changes what runs elsewhere' },
  { program: /^kubectl$/, line: /\b(?:delete|drain|exec|replace)\b/, reason: 'it deletes or runs things in the cluster' },
  {
    program: /^(?:npm|pnpm|yarn|cargo|gem|twine)$/,
    line: /\b(?:publish|unpublish|yank|owner)\b/,
    reason: 'it changes what everybody gets',
  },
  {
    program: /^(?:python|node|perl|ruby|php|lua|deno|bun)$/,
    line: / (?:-\w*[ceEpr]|--(?:eval|print|require|import|exec))\b/,
    reason: 'it runs a program that is written in the line',
  },
  {
    program: /^(?:history|crontab|at|batch|launchctl|systemctl)$/,
    line: / (?!-l\b)(?!status)(?!list)/,
    reason: 'it changes what runs later',
  },
  { program: /^:?\(\)$/, line: /^/, reason: 'it starts itself without end' },
]

/** The risk of one program with its arguments, by what is known of it. What is unknown is a matter of care. */
export function riskOf(argv: readonly string[], hazards: readonly CommandHazard[], isOfWorkspace: boolean): readonly Reason[] {
  const name = programName(argv[0] ?? '')
  const line = ` ${argv.slice(1).join(' ')}`
  const found: Reason[] = DANGEROUS.filter((entry) => entry.program.test(name) && entry.line.test(line)).map(({ reason }) => ({
    level: 'dangerous',
    reason: `${name}: ${reason}`,
  }))
  for (const { program, letter, why } of hazards)
    found.push({
      level: program === '*' || letter === 'X' || letter === 'C' || /secret|password|signs in/.test(why) ? 'dangerous' : 'caution',
      reason: why,
    })
  const kind = programClass(argv[0] ?? '')
  if (kind !== undefined) found.push({ level: 'caution', reason: `${name} is ${describeClass(kind)}` })
  if (isOfWorkspace) found.push({ level: 'caution', reason: `${name} runs code of the workspace, which the agent can write` })
  if (found.length > 0) return found
  if (isReadOnly(argv)) return [{ level: 'safe', reason: `${name} only shows something` }]
  return [
    {
      level: 'caution',
      reason: tableOf(name) === undefined ? `${name} is not a program that is known here` : `${name} does more than show something`,
    },
  ]
}

/** The worst of all, with the reasons for it, then the others. */
export function worstOf(reasons: readonly Reason[]): Risk {
  const level = LEVELS[Math.max(0, ...reasons.map((reason) => LEVELS.indexOf(reason.level)))] ?? 'dangerous'
  const ordered = reasons
    .toSorted((a, b) => LEVELS.indexOf(b.level) - LEVELS.indexOf(a.level))
    .filter((reason) => level === 'safe' || reason.level !== 'safe')
  return { level, reasons: [...new Set(ordered.map(({ reason }) => reason))].slice(0, REASONS_MAX) }
}
