/**
 * What kind of program a name is, where the kind decides: no rule can allow one of these, since what it does is in its arguments or
 * its input. Facts of the programs' manuals and of GTFOBins.
 */
export type ProgramClass = 'shell' | 'interpreter' | 'wrapper' | 'editor' | 'own'

const words = (text: string): readonly string[] => text.trim().split(/\s+/)

const CLASSES: Readonly<Record<ProgramClass, readonly string[]>> = {
  shell: words(`sh bash zsh dash ash fish ksh mksh yash csh tcsh rbash rzsh pwsh powershell cmd nu xonsh elvish
    eval exec source . command builtin export alias unset trap set cd declare typeset`),
  interpreter:
    words(`python pypy ipython node nodejs deno bun tsx ts-node ruby irb perl php lua luajit tclsh wish expect osascript jshell java
    groovy scala kotlin awk gawk mawk nawk original-awk sqlite sqlite3 r rscript julia ghci ghc runghc runhaskell guile racket scheme sbcl clisp clojure elixir
    iex erl escript ocaml swipl octave gnuplot dc bc mongosh mongo`),
  wrapper:
    words(`env sudo doas su runas pkexec xargs parallel timeout gtimeout nice ionice nohup stdbuf unbuffer setsid setpriv setarch chroot
    unshare nsenter script watch flock time strace ltrace gdb lldb valgrind perf taskset chrt runuser systemd-run machinectl start-stop-daemon launchctl open
    xdg-open gio start busybox toybox npx pnpx bunx uvx uv pipx corepack volta fnm nvm asdf mise direnv tee dd install entr at batch crontab ssh-agent
    dbus-run-session dbus-launch dbus-send busctl gdbus faketime fakeroot proot bwrap firejail sandbox-exec rlwrap tmux screen zellij socat nc ncat netcat telnet
    xvfb-run cgexec numactl run-parts xcrun ld ld.so ld-linux-x86-64.so.2 catchsegv hyperfine watchexec reflex nodemon foreman overmind caffeinate`),
  editor: words(
    'vim vi view vimdiff rvim nvim emacs emacsclient nano pico ed red ex less more most man info pg code subl micro hx joe mcedit',
  ),
  own: words('sallyport'),
}

const CLASS_OF: ReadonlyMap<string, ProgramClass> = new Map(
  Object.entries(CLASSES).flatMap(([kind, names]) => names.map((name) => [name, kind as ProgramClass] as const)),
)

/** The name that tables know a program by: without folders, ending and version, in lower case, as file systems may not tell them apart. */
export function programName(program: string): string {
  const base = (program.split(/[/\\]/).at(-1) ?? '').toLowerCase().replace(/\.(?:exe|cmd|bat|com|ps1|mjs)$/, '')
  if (CLASS_OF.has(base)) return base
  const bare = base.replace(/[-.]?\d[\d.]*$/, '')
  return bare !== '' &&
    /^(?:python|pypy|node|ruby|perl|php|lua|luajit|tclsh|wish|bash|ksh|zsh|java|gcc|g\+\+|clang|clang\+\+|go|pip|gem|psql|pg_dump|erl|irb|guile|vim|emacs|ghc|ghci|awk|sqlite|julia|pg_restore|make|git|npm|cmake)$/.test(
      bare,
    )
    ? bare
    : base
}

/** The class of a program by its name, `undefined` for one of none. */
export function programClass(program: string): ProgramClass | undefined {
  return CLASS_OF.get(programName(program))
}

/** In words, for messages: "a shell". */
export function describeClass(kind: ProgramClass): string {
  switch (kind) {
    case 'shell':
      return 'a shell, or a word that only a shell has'
    case 'interpreter':
      return 'an interpreter'
    case 'wrapper':
      return 'a program that starts others'
    case 'editor':
      return 'an editor or pager, which runs what it is told'
    case 'own':
      return 'Sallyport itself'
  }
}
