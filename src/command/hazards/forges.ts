import { list, row, type ProgramTable } from './table.ts'

/** Manual of GitHub's client, https://cli.github.com/manual. */
export const GH: ProgramTable = {
  names: ['gh'],
  style: 'gnu',
  valued: 'RLqtBHAalSsjmxucK',
  valuedLong: list(
    '--repo --limit --jq --template --json --state --author --assignee --label --search --branch --workflow --user --hostname --base --head',
  ),
  operandsAreNames: true,
  rows: [
    row('N', '-f -F --field --raw-field --input -X --method', 'sends data, or makes it other than a GET', { on: 'api' }),
    row('N', 'api/graphql', 'sends any query, also one that changes something'),
    row('N', '-H --header --hostname', 'changes who is asked, or how', { on: 'api' }),
    row('X', 'alias extension extensions ext', 'changes what words of gh run, or runs it'),
    row('C', 'config', 'names the editor, pager and browser to start'),
    row('X', '-w --web', 'opens a browser', {
      on: 'pr issue run release repo workflow search gist label ruleset project status auth browse cache',
    }),
    row('X', 'browse', 'opens a browser'),
    row('X', 'repo/clone repo/fork pr/checkout', 'runs git, with options of its own and what the repository configures'),
    row('X', '--clone', 'runs git', { on: 'repo' }),
    row('X', 'codespace cs', 'runs commands elsewhere, copies files'),
    row('N', 'run/rerun run/cancel run/delete workflow/run workflow/enable workflow/disable', 'makes others run code'),
    row('N', 'secret variable ssh-key/add ssh-key/delete gpg-key/add gpg-key/delete', 'changes secrets and keys'),
    row('N', 'repo/delete repo/edit repo/rename repo/archive repo/transfer repo/deploy-key', 'changes or deletes a repository'),
    row('R', 'release/create release/upload release/delete release/edit gist', 'sends files out, or deletes'),
    row('W', '-O -D --output --dir --clobber', 'writes files', { on: 'release run repo' }),
    row('W', 'release/download run/download attestation', 'writes files'),
    row('R', 'auth/token auth/refresh auth/setup-git auth/login auth/logout auth/switch', 'prints or changes what signs in'),
    row('R', '--show-token -t', 'prints what signs in', { on: 'auth' }),
    row('R', '-F --body-file --fill --recover --template', 'sends a file out', {
      on: 'pr/create pr/edit pr/comment pr/review pr/merge issue/create issue/edit issue/comment',
    }),
    row('X', '-e --editor', 'starts an editor', { on: 'pr issue gist' }),
    row('X', 'copilot preview skill agent-task', 'starts other programs'),
  ],
  readOnly: list(
    'pr/view pr/list pr/status pr/diff pr/checks issue/view issue/list issue/status run/view run/list run/watch release/view release/list repo/view repo/list workflow/view workflow/list api search auth/status cache/list label/list ruleset/list ruleset/view ruleset/check status org/list project/list project/view version --version',
  ),
  environment: { GH_PAGER: 'cat', PAGER: 'cat', GH_PROMPT_DISABLED: '1', GH_NO_UPDATE_NOTIFIER: '1' },
}
