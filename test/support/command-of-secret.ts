import { Secret } from '../../src/kernel/secret.ts'
import { commandSetting } from './executor.ts'

/** Prints what a host command reads of the environment of this process, which has a secret, redacted of it. */
await using setting = await commandSetting()
const secrets = [new Secret('TOKEN', process.env['TOKEN'] ?? '')]
process.stdout.write((await setting.run({ argv: ['cat', `/proc/${process.pid}/environ`] }, { secrets })).stdout.replaceAll('\0', '\n'))
