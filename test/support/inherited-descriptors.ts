import { commandSetting } from './executor.ts'

/** Prints which descriptors a host command of this process has, as `ls -l` does. */
await using setting = await commandSetting()
process.stdout.write((await setting.run({ argv: ['ls', '-l', '/proc/self/fd'] })).stdout)
