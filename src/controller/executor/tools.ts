import { existsSync, realpathSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { isWithin } from '../sessions/real-path.ts'

/** Below the operator's home: where tools are kept apart from what they know of the operator. `.cargo` has a token, `.cargo/bin` has none. */
const TOOLS_OF_HOME = [
  '.nvm/versions .volta/bin .volta/tools .fnm/node-versions .local/share/fnm/node-versions .deno/bin .bun/bin',
  '.pyenv/bin .pyenv/libexec .pyenv/pyenv.d .pyenv/plugins .pyenv/shims .pyenv/version .pyenv/versions .local/share/uv/python',
  '.rbenv/bin .rbenv/libexec .rbenv/shims .rbenv/version .rbenv/versions .local/bin',
  '.asdf/bin .asdf/installs .asdf/shims .asdf/plugins .asdf/lib .local/share/mise/installs .local/share/mise/shims',
  '.rustup/toolchains .rustup/settings.toml .cargo/bin .cargo/registry/src .cargo/registry/index .cargo/registry/cache',
  'go/bin go/pkg .sdkman/candidates .ghcup/bin .ghcup/ghc .elan/toolchains .elan/bin .swiftly/bin .local/share/swiftly',
].flatMap((names) => names.split(' '))

const BEING_SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/nix/store', '/gnu/store']

/**
 * Files and folders that a sandboxed command may read so that its tools work: those of the operator's home by the list above, and of
 * the folders of PATH elsewhere the whole that they are part of (`/opt/x` of `/opt/x/bin`).
 * @param folders of PATH
 * @param hidden nothing that has one of them in it, or lies in one, is a tool
 * @returns real paths
 */
export function toolsOf(folders: readonly string[], homeFolder: string, hidden: readonly string[]): readonly string[] {
  const fromHome = TOOLS_OF_HOME.map((name) => join(homeFolder, name))
  const fromPath = folders.flatMap((folder) => {
    const real = realpathOf(folder)
    if (real === undefined || BEING_SYSTEM.some((system) => isWithin(system, real))) return []
    if (isWithin(homeFolder, real)) return TOOLS_OF_HOME.some((name) => isWithin(join(homeFolder, name), real)) ? [] : [real]
    return isInstallation(real) ? [dirname(real), real] : [real]
  })
  const isFit = (path: string): boolean =>
    path !== '/' &&
    ![homeFolder, '/tmp', '/home', ...hidden].some((other) => isWithin(path, other)) &&
    !hidden.some((other) => isWithin(other, path))
  const real = [...fromHome, ...fromPath].map(realpathOf).filter((path) => path !== undefined && isFit(path)) as string[]
  return [...new Set(real)].toSorted((a, b) => a.length - b.length)
}

/** Whether the folder above is that of a tool alone: `/opt/x` has its libraries, and a hidden one may have somebody's tokens. */
function isInstallation(folder: string): boolean {
  const above = dirname(folder)
  return basename(folder) === 'bin' && !basename(above).startsWith('.') && ['lib', 'libexec'].some((name) => existsSync(join(above, name)))
}

function realpathOf(path: string): string | undefined {
  return existsSync(path) ? realpathSync(path) : undefined
}
