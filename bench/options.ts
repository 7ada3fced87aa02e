import { parseArgs } from 'node:util'
import { SetupError } from '../scripts/steps.ts'
import { MAIN, MEASURES, QUICK, measureOf, type Measure } from './measures.ts'
import { MAIN_PEERS, PEERS, QUICK_PEERS } from './peers.ts'
import { allowedCpus } from './proc.ts'

/** What is asked for: the comparison, or one of the stories beside it. */
export type Story = 'compare' | 'profile' | 'scale' | 'soak' | 'sessions' | 'list' | 'help'

/** What grows in the story of scale. */
export const GROWING = ['connections', 'rules', 'load', 'gates'] as const
export type Growing = (typeof GROWING)[number]

export type Options = {
  readonly story: Story
  readonly measures: readonly Measure[]
  readonly peers: readonly string[]
  readonly runs: number
  readonly seconds: number
  readonly warm: number
  readonly soakSeconds: number
  readonly growing: readonly Growing[]
  readonly proxyCpu: string
  readonly clientCpu: string
  readonly gate?: string
  readonly against?: string
  /** Files of earlier results, which are reported instead of new ones. */
  readonly from: readonly string[]
  readonly isFull: boolean
  readonly isBuilding: boolean
  /** The document is written: a whole story was run, and nobody forbade it. */
  readonly isWriting: boolean
}

export const USAGE = `usage: npm run bench -- [...]

Compares the gate with other proxies on this machine, the same load through each in turn in every run, and writes what it finds
into docs/PERFORMANCE.md. Brings the peers that it can get (apt, npm); what cannot be had is skipped and named.

  --quick               few measures and peers, in under three minutes; prints, and writes no document
  --measures A,B        only these (--list names them); prints, and writes no document
  --peers X,Y           only these; "none" for the gate alone
  --runs N              medians are over so many (default 3)
  --seconds S           counted seconds of a run (default 1.5), after --warm S of the same load (default 0.7)
  --full                also the start of a container, where docker is there
  --profile             a flame graph of the gate under one measure (default mitm64)
  --scale [A,B]         what becomes of it with many connections, rules, gates, and at more load than it can carry; with names only
                        these of connections, rules, load, gates, and writes no document
  --soak [S]            memory under steady load for so many seconds (default 3600)
  --sessions            what a session of the controller costs: up, down, twenty side by side, and what is left of them. Needs docker
  --against FOLDER      another clone's dist/ as one more peer, in the same runs; with --sessions as one more daemon
  --gate FOLDER         another clone's dist/ as the gate; this one is not built
  --proxy-cpu N, --client-cpu N
                        processors for the proxy, and for client and upstream; "none" pins nothing
  --from FILE,FILE      reports earlier results (their JSON lines) instead of measuring; of the same run the later file counts
  --no-write            prints only
  --list, --help

  BENCH_WORK            work folder: programs, peers, certificates, logs, results (default: sallyport-bench in the system's
                        temporary folder). Delete it, and the folder of the same name in /dev/shm, to be rid of all
  BENCH_PORTS           first three digits of all ports (default 247: 24700 to 24799 on loopback)
  BENCH_NICE            niceness of all that is measured, such as -10 on a machine that does other things (root)
  SALLYPORT_NO_INSTALL  1: installs nothing
`

/** Reads the command line. @throws SetupError for what makes no sense */
export function parseOptions(argv: readonly string[], cpus: readonly number[] = allowedCpus()): Options {
  const { values } = readFlags(argv)
  const names = (text: string | undefined): string[] | undefined => text?.split(',').filter((name) => name !== '' && name !== 'none')
  const measures = names(values.measures)
  const peers = names(values.peers)
  const growing = names(values.scale) ?? []
  const unknown = [
    ...(measures ?? []).filter((name) => !MEASURES.has(name)),
    ...(peers ?? []).filter((name) => PEERS[name] === undefined),
    ...growing.filter((name) => !GROWING.some((one) => one === name)),
  ]
  if (unknown.length > 0) throw new SetupError(`unknown: ${unknown.join(', ')}`, ['--list names every measure and peer'])
  const usual = values.quick
    ? { measures: QUICK, peers: QUICK_PEERS, runs: 2, seconds: 1 }
    : { measures: MAIN, peers: MAIN_PEERS, runs: 3, seconds: 1.5 }
  const [first, second] = cpus
  const isOne = second === undefined
  const story = storyOf(values)
  const usualMeasures = story === 'profile' ? [measureOf('mitm64')] : usual.measures
  return {
    story,
    measures: measures?.flatMap((name) => MEASURES.get(name) ?? []) ?? usualMeasures,
    peers: peers ?? usual.peers,
    runs: positive('--runs', values.runs, usual.runs),
    seconds: positive('--seconds', values.seconds, usual.seconds),
    warm: positive('--warm', values.warm, 0.7),
    soakSeconds: positive('--soak', values.soak === '' ? undefined : values.soak, 3600),
    growing: growing.length === 0 ? GROWING : GROWING.filter((name) => growing.includes(name)),
    proxyCpu: values['proxy-cpu'] ?? (isOne ? 'none' : String(first)),
    clientCpu: values['client-cpu'] ?? (isOne ? 'none' : String(second)),
    ...(values.gate !== undefined && { gate: values.gate }),
    ...(values.against !== undefined && { against: values.against }),
    from: names(values.from) ?? [],
    isFull: values.full,
    isBuilding: values.gate === undefined,
    isWriting:
      !values['no-write'] && (story === 'compare' ? !values.quick && measures === undefined && peers === undefined : growing.length === 0),
  }
}

function storyOf(values: {
  help: boolean
  list: boolean
  profile: boolean
  scale?: string | undefined
  soak?: string | undefined
  sessions: boolean
}): Story {
  if (values.help) return 'help'
  if (values.list) return 'list'
  if (values.profile) return 'profile'
  if (values.sessions) return 'sessions'
  if (values.scale !== undefined) return 'scale'
  return values.soak === undefined ? 'compare' : 'soak'
}

function readFlags(argv: readonly string[]) {
  // These may stand alone, which parseArgs has no word for.
  const args = argv.map((word, i) => (['--soak', '--scale'].includes(word) && (argv[i + 1] ?? '--').startsWith('--') ? `${word}=` : word))
  try {
    return parseArgs({
      args,
      options: {
        quick: { type: 'boolean', default: false },
        measures: { type: 'string' },
        peers: { type: 'string' },
        runs: { type: 'string' },
        seconds: { type: 'string' },
        warm: { type: 'string' },
        full: { type: 'boolean', default: false },
        profile: { type: 'boolean', default: false },
        scale: { type: 'string' },
        soak: { type: 'string' },
        sessions: { type: 'boolean', default: false },
        against: { type: 'string' },
        gate: { type: 'string' },
        'proxy-cpu': { type: 'string' },
        'client-cpu': { type: 'string' },
        from: { type: 'string' },
        'no-write': { type: 'boolean', default: false },
        list: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false, short: 'h' },
      },
    })
  } catch (error) {
    throw new SetupError((error as Error).message, ['npm run bench -- --help'])
  }
}

function positive(flag: string, given: string | undefined, otherwise: number): number {
  if (given === undefined) return otherwise
  const value = Number(given)
  if (!Number.isFinite(value) || value <= 0) throw new SetupError(`${flag} ${given} is not a number above zero`)
  return value
}
