import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { capture, run } from '../../scripts/steps.ts'
import { watching, writePrograms, type Programs } from './programs.ts'

/** The real programs of Debian, each behind a script that notes what every process shows while it runs (`seen`). */
export type SecretStore = AsyncDisposable & { readonly programs: Programs; readonly env: Readonly<Record<string, string>> }

/** pass with a key of gpg's that has no passphrase, and an empty store. */
export async function openPasswordStore(): Promise<SecretStore> {
  const programs = writePrograms({ pass: watching('pass'), gpg: watching('gpg') })
  const env = { ...programs.env, GNUPGHOME: programs.at('gnupg'), PASSWORD_STORE_DIR: programs.at('store') }
  mkdirSync(env.GNUPGHOME, { mode: 0o700 })
  await run(
    'gpg',
    ['--batch', '--quiet', '--passphrase', '', '--quick-generate-key', 'operator@example.com', 'default', 'default', 'never'],
    { env },
  )
  await run('pass', ['init', 'operator@example.com'], { env })
  return {
    programs,
    env,
    async [Symbol.asyncDispose]() {
      await capture('gpgconf', ['--kill', 'all'], { env })
      programs[Symbol.dispose]()
    },
  }
}

/** A session bus with GNOME's keyring on it, unlocked; both end together. */
export async function openKeyring(): Promise<SecretStore> {
  const programs = writePrograms({ 'secret-tool': watching('secret-tool') })
  const runtime = programs.at('run')
  mkdirSync(runtime, { mode: 0o700 })
  const session = { ...programs.env, XDG_RUNTIME_DIR: runtime, XDG_DATA_HOME: programs.at('data') }
  const bus = spawn('dbus-daemon', ['--session', '--nofork', '--nopidfile', '--print-address=1'], {
    env: session,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const ended = once(bus, 'close')
  const [address] = (await once(createInterface(bus.stdout), 'line')) as [string]
  const env = { ...session, DBUS_SESSION_BUS_ADDRESS: address }
  // It goes into the background once it answers, and ends with its bus.
  await run('gnome-keyring-daemon', ['--unlock', '--components=secrets', '--daemonize'], { env, input: 'password' })
  return {
    programs,
    env,
    async [Symbol.asyncDispose]() {
      bus.kill('SIGTERM')
      await ended
      programs[Symbol.dispose]()
    },
  }
}
