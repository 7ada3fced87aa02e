import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { layersOf, workspacePolicyDir, type SessionLayers } from '../../src/controller/sessions/session-layers.ts'
import { openTrust, type TrustStore } from '../../src/controller/sessions/workspace-trust.ts'
import { countingSystem } from './leases.ts'

export type LayerSetting = Disposable & {
  readonly dir: string
  readonly home: string
  readonly workspace: string
  /** The workspace's own policy. */
  readonly own: string
  /** The operator's folder for this workspace. */
  readonly folder: string
  readonly trust: TrustStore
  readonly write: (file: string, text: string | Uint8Array) => string
  readonly layers: (more?: { role?: string; sessionFiles?: readonly string[] }) => Promise<SessionLayers>
}

/** A home folder and a workspace, side by side, of real files. */
export function layerSetting(files: Readonly<Record<string, string>> = {}): LayerSetting {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'sallyport-layers-')))
  const [home, workspace] = [join(dir, 'home'), join(dir, 'workspace')]
  for (const folder of [home, workspace]) mkdirSync(folder, { mode: 0o700 })
  const trust = openTrust(home, countingSystem(dir))
  const write = (file: string, text: string | Uint8Array): string => {
    mkdirSync(dirname(join(dir, file)), { recursive: true })
    writeFileSync(join(dir, file), text)
    return join(dir, file)
  }
  for (const [file, text] of Object.entries(files)) write(file, text)
  return {
    dir,
    home,
    workspace,
    own: join(workspace, '.sallyport/policy.yaml'),
    folder: workspacePolicyDir(home, workspace),
    trust,
    write,
    layers: ({ role, sessionFiles = [] } = {}) => layersOf({ home, workspace, role, sessionFiles, trust }),
    [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }),
  }
}

/** A policy with one rule. */
export function ruleText(id: string, host: string, action: 'allow' | 'ask' | 'deny', more = ''): string {
  return `version: 1\nnetwork:\n  rules:\n    - {id: ${id}, host: "${host}", action: ${action}}\n${more}`
}
