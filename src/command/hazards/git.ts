import { list, row, type ProgramTable } from './table.ts'

/** git(1) and the manuals of its subcommands; CVE-2024-32002, CVE-2025-48384. */
export const GIT: ProgramTable = {
  names: ['git'],
  style: 'gnu',
  valued: 'cCSGL',
  valuedLong: list(
    '--git-dir --work-tree --namespace --exec-path --config-env --format --pretty --max-count --since --until --author --grep --sort --contains --merged --abbrev --diff-filter --depth',
  ),
  rows: [
    row('C', '-c', 'sets configuration, which names programs to run', { on: '@globals' }),
    row(
      'C',
      '--config-env --exec-path --git-dir --work-tree --namespace --super-prefix --attr-source',
      'takes configuration or programs from another place',
    ),
    row('C', '-C', 'works in another folder, by its configuration', { on: '@globals' }),
    row('X', '-p --paginate', 'starts a pager', { on: '@globals' }),
    row('W', '--output', 'writes a file', {
      on: 'log diff show stash format-patch whatchanged diff-tree diff-index diff-files range-diff shortlog reflog archive rev-list',
    }),
    row('W', '-o --output-directory', 'writes files', { on: 'format-patch archive bugreport diagnose' }),
    row('X', '--ext-diff --textconv', 'runs a program that configuration names'),
    row('X', '-O --open-files-in-pager', 'runs a program on what it finds', { on: 'grep' }),
    row('X', '--upload-pack --receive-pack --exec -u', 'runs a program in place of the other side', {
      on: 'fetch pull clone ls-remote archive push fetch-pack send-pack remote submodule',
    }),
    row('X', '', 'an address that runs a program, or an option of ssh in it', {
      operand: /^(?:ext|fd)::|^ssh:\/\/-|:\/\/[^/]*@-|^-.*@|^[^/]*@-o/i,
    }),
    row('R', '', 'takes a repository of this machine', { operand: /^file:\/\//i }),
    row('N', '', 'fetches from an address', { operand: /^(?:https?|ftps?|ssh|git|rsync)(?:\+\w+)?:\/\//i }),
    row(
      'X',
      '-c --config --template --recurse-submodules --recursive --separate-git-dir --reference --shared',
      'takes configuration, hooks or submodules with it',
      { on: 'clone init' },
    ),
    row('X', 'submodule/foreach submodule/update submodule/add submodule/init submodule/sync', 'runs what submodules configure'),
    row('X', 'bisect/run bisect/visualize bisect/view', 'runs a program'),
    row('X', '-x --exec -i --interactive --edit-todo', 'runs programs or an editor', { on: 'rebase' }),
    row('X', '-x --extcmd', 'runs a program', { on: 'difftool' }),
    row(
      'X',
      'difftool mergetool filter-branch send-email instaweb daemon web--browse interpret-trailers maintenance hook for-each-repo fast-import fast-export citool gui gitk http-backend shell cvsserver p4 svn remote-ext remote-fd remote-http remote-https upload-pack upload-archive receive-pack fsmonitor--daemon run scalar lfs annex credential credential-cache credential-store credential-manager credential-osxkeychain credential-libsecret',
      'starts other programs, a server or a helper for passwords',
    ),
    row('X', '-w --web -m --man -i --info', 'starts a browser or pager', { on: 'help' }),
    row('X', '--help', 'starts a pager'),
    row('X', 'var/GIT_EDITOR var/GIT_PAGER', 'shows what configuration would run'),
    row('C', 'config', 'changes or reads configuration, which names programs to run'),
    row('W', '--unsafe-paths --directory', 'writes outside of the folder', { on: 'apply am' }),
    row(
      'X',
      'commit merge push am rebase revert cherry-pick gc pull fetch checkout switch worktree/add clone apply stash/push stash/save stash/apply stash/pop stash/drop stash/clear stash/branch stash/create stash/store add restore reset rm mv sparse-checkout read-tree checkout-index',
      'runs hooks, filters or a program that signs',
    ),
    row(
      'W',
      'clean prune repack prune-packed reflog/expire reflog/delete bundle init archive worktree/remove worktree/move worktree/prune worktree/repair worktree/lock worktree/unlock update-index update-server-info write-tree commit-tree mktag mktree pack-objects pack-refs unpack-objects index-pack notes/add notes/append notes/edit notes/remove notes/merge notes/prune notes/copy replace rerere',
      'writes or deletes files',
    ),
    row('R', '--no-index', 'reads any file', { on: 'diff grep' }),
    row('R', 'hash-object mailinfo mailsplit', 'reads any file'),
    row(
      'R',
      '--contents --file -F --ignore-revs-file --exclude-from -X --pathspec-from-file --mailmap-file -f --batch-command --stdin-packs',
      'reads any file',
      { on: 'blame commit shortlog tag notes grep ls-files status checkout reset add rm cat-file pack-objects annotate' },
    ),
    row(
      'W',
      '-D -d --delete -f --force -M -m --move -C -c --copy --edit-description -u --set-upstream-to --unset-upstream',
      'changes branches',
      { on: 'branch' },
    ),
    row('W', '-d --delete -f --force -s --sign -u --local-user -a --annotate -m --message', 'changes tags or signs', { on: 'tag' }),
    row('N', '-f --force --force-with-lease --mirror --delete -d --prune --all --tags', 'overwrites or deletes what others have', {
      on: 'push',
    }),
    row(
      'W',
      'update-ref symbolic-ref remote/set-url remote/add remote/remove remote/rm remote/rename remote/set-head remote/set-branches remote/prune remote/update',
      'changes references or where it sends to',
    ),
    row('N', 'remote/show ls-remote request-pull imap-send fetch-pack send-pack http-fetch http-push', 'talks to another side'),
    row('X', '--show-signature', 'runs the program that configuration names for signatures'),
    row('R', 'check-attr check-ignore check-mailmap', 'reads files of any place', { operand: /^\/|\.\.\// }),
  ],
  readOnly: list(
    'status log show diff blame annotate branch tag rev-parse rev-list ls-files ls-tree describe shortlog remote worktree/list stash/list stash/show cat-file name-rev merge-base for-each-ref show-ref cherry count-objects fsck whatchanged range-diff diff-tree diff-index diff-files grep reflog version --version',
  ),
  environment: {
    GIT_PAGER: 'cat',
    PAGER: 'cat',
    GIT_EDITOR: 'false',
    GIT_TERMINAL_PROMPT: '0',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_OPTIONAL_LOCKS: '0',
  },
}
