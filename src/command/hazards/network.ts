import { list, row, type ProgramTable } from './table.ts'

const RUN = 'runs a program'

/** ssh(1). Every connection runs something elsewhere. */
export const SSH: ProgramTable = {
  names: ['ssh', 'slogin', 'mosh', 'autossh', 'sshpass', 'ssh-copy-id', 'ssh-add', 'ssh-keygen', 'ssh-keyscan'],
  style: 'gnu',
  valued: 'bcDEeFIiJLlmOopQRSWw',
  operandsAreNames: true,
  rows: [
    row('X', '-o', 'an option of ssh, which may run a program'),
    row('C', '-F', 'takes another configuration'),
    row('W', '-E', 'writes a file'),
    row('X', '-I -J -S -O', 'loads a library, or goes by other hosts'),
    row('N', '-L -R -D -w -W', 'opens ports'),
    row('N', '-A -X -Y', 'lends the keys or the screen to the other side'),
    row('R', '-i', 'takes a key from a file'),
    row('X', '-f -N -M', 'stays in the background'),
    row('X', '-G', 'evaluates configuration, which may run a program'),
  ],
  otherwise: { letter: 'N', why: 'connects to another machine and runs something there' },
  readOnly: list('-V -Q'),
  tier: 'T1',
}

export const SCP: ProgramTable = {
  names: ['scp', 'sftp', 'ftp', 'lftp', 'rclone', 'croc', 'magic-wormhole', 'wormhole'],
  style: 'gnu',
  valued: 'cFiJloPSDbBRXs',
  operandsAreNames: true,
  rows: [
    row('X', '-S -D', RUN),
    row('X', '-o', 'an option of ssh, which may run a program'),
    row('C', '-F -J -i', 'takes another configuration, host or key'),
    row('X', '-b', 'takes commands from a file'),
  ],
  otherwise: { letter: 'N', why: 'copies files to or from another machine' },
  readOnly: ['--version'],
  tier: 'T1',
}

export const RSYNC: ProgramTable = {
  names: ['rsync'],
  style: 'gnu',
  valued: 'efBTM',
  rows: [
    row('X', '-e --rsh --rsync-path', RUN),
    row('X', '--daemon --config -M --remote-option', 'serves files, or hands options to the other side'),
    row(
      'R',
      '--password-file --files-from --include-from --exclude-from -f --filter --copy-as --read-batch',
      'takes names or options from a file',
    ),
    row('W', '--log-file --write-batch --only-write-batch --partial-dir --temp-dir -T --backup-dir --outbuf', 'writes in another place'),
    row('W', '--delete --del --remove-source-files --inplace', 'deletes files'),
    row('N', '', 'another machine', { operand: /^rsync:|^[^/]+:/ }),
  ],
  otherwise: { letter: 'W', why: 'writes files' },
  readOnly: list('--list-only --version'),
}

/** curl(1) and wget(1). */
export const CURL: ProgramTable = {
  names: [
    'curl',
    'wget',
    'wget2',
    'http',
    'https',
    'xh',
    'httpie',
    'aria2c',
    'fetch',
    'axel',
    'lynx',
    'w3m',
    'links',
    'elinks',
    'grpcurl',
    'websocat',
    'wscat',
  ],
  style: 'gnu',
  valued: 'AbCcDdeEFhHKmoPQrTtuUwxXyYz',
  operandsAreNames: true,
  rows: [
    row(
      'W',
      '-o -O -J --output --remote-name --remote-header-name --output-dir --create-dirs --remove-on-error -D --dump-header -c --cookie-jar --trace --trace-ascii --stderr --etag-save --hsts --alt-svc --libcurl --output-document -P --directory-prefix -r',
      'writes files',
    ),
    row('W', '-w --write-out', 'writes a file', { value: /output\{/ }),
    row('C', '-K --config --execute -e --use-askpass', 'takes options from a file, or a program'),
    row(
      'R',
      '-d --data --data-binary --data-ascii --data-urlencode --json -H --header --variable --url --post-file --body-file',
      'sends a file out',
      { value: /@|^\// },
    ),
    row('R', '-F --form -T --upload-file --form-string', 'sends a file out'),
    row(
      'R',
      '-b --cookie --netrc --netrc-file -n -E --cert --key --cacert --capath --proxy-cacert --proxy-cert --load-cookies --input-file -i',
      'reads any file',
    ),
    row('X', '--engine', 'loads a library'),
    row('R', '', 'another way than the web', { operand: /^(?:file|dict|gopher|scp|sftp|smb|tftp|telnet|ldap|imap|pop3|smtp|rtsp|mqtt):/i }),
    row('X', '--unix-socket --abstract-unix-socket', 'speaks with a service of this machine'),
    row(
      'N',
      '--connect-to --resolve --interface -x --proxy --preproxy --doh-url -k --insecure --noproxy -L --location --location-trusted --next -Z --socks5 --no-check-certificate',
      'speaks with another host than it says, or trusts any',
    ),
    row('N', '', 'sends a request', { operand: /^(?:https?:|[^-]*[./:])|^[\w-]+$/i }),
    row('N', '', 'an address that stands for many', { operand: /[{}[\]]/ }),
  ],
  otherwise: { letter: 'N', why: 'sends requests' },
  readOnly: list('--version -V --help'),
}

/** Databases: text can't prove a query read-only, as functions write. */
export const PSQL: ProgramTable = {
  names: ['psql'],
  style: 'gnu',
  valued: 'cdfFhLopPRTUv',
  operandsAreNames: true,
  rows: [
    row('X', '', 'starts with what .psqlrc says: -X keeps it from that', { operandsMin: 0, unless: '-X --no-psqlrc --version -V' }),
    row('X', '-c --command', 'a command of psql itself, or a program of the server', {
      value: /\\|\bprogram\b|\bcopy\b|pg_read|pg_write|lo_(?:im|ex)port|dblink|\bdo\b/i,
    }),
    row('W', '-c --command', 'changes data', { value: /^(?!\s*(?:select|show|explain|values|table)\b)/i }),
    row('X', '-f --file', 'runs a file'),
    row('W', '-o --output -L --log-file', 'writes a file'),
    row('C', '-v --set --variable -d --dbname', 'sets what psql does, or where it connects and by which files', { value: /=/ }),
    row('R', '', 'where to connect to, and by which files', { operand: /=/ }),
    row('X', '', 'commands from its input', { operandsMin: 0, unless: '-c --command -l --list --version -V' }),
  ],
  readOnly: list('--version -V -l --list'),
}

export const DATABASES: ProgramTable = {
  names: [
    'pg_dump',
    'pg_dumpall',
    'pg_restore',
    'mysql',
    'mysqldump',
    'mariadb',
    'mariadb-dump',
    'redis-cli',
    'valkey-cli',
    'mongodump',
    'mongorestore',
    'mongoexport',
    'clickhouse-client',
    'duckdb',
    'sqlcmd',
    'cqlsh',
    'influx',
    'etcdctl',
    'createdb',
    'dropdb',
  ],
  style: 'gnu',
  valued: 'hpUudfFnte',
  operandsAreNames: true,
  rows: [
    row('W', '-f --file --tab --result-file -T --rdb --log-file', 'writes a file'),
    row(
      'X',
      '--defaults-file --defaults-extra-file --plugin-dir --init-command -e --execute --eval --filter -x',
      'runs what a file, a library or a line says',
    ),
    row('X', '', 'commands in its own language', {
      operand: /\\!|^system\b|^source\b|\beval\b|^(?:config|module|debug|script|slaveof|replicaof|flush\w*|shutdown)$/i,
    }),
  ],
  otherwise: { letter: 'N', why: 'reads or changes a database' },
  readOnly: list('--version -V --help -l --list'),
}

export const GPG: ProgramTable = {
  names: ['gpg', 'gpg2', 'gpgv', 'gpgsm', 'gpgconf', 'gpg-connect-agent'],
  style: 'gnu',
  valued: 'oruN',
  rows: [
    row('R', '--decrypt -d --export-secret-keys --export-secret-subkeys --export', 'reads secrets'),
    row(
      'W',
      '-o --output --import --edit-key --quick-gen-key --gen-key --full-generate-key --delete-keys --delete-secret-keys --delete-secret-and-public-key --sign-key --lsign-key --yes',
      'writes files or keys',
    ),
    row('R', '--sign -s --clear-sign --clearsign --detach-sign -b', 'signs in the name of the operator'),
    row('N', '--recv-keys --keyserver --auto-key-retrieve --search-keys --send-keys --refresh-keys --auto-key-locate', 'talks to others'),
    row(
      'C',
      '--homedir --options --load-extension --exec-path --photo-viewer --agent-program --dirmngr-program --pinentry-mode --pinentry --keyring --secret-keyring --primary-keyring',
      'takes configuration or programs from another place',
    ),
    row(
      'R',
      '--passphrase-fd --passphrase-file --passphrase --status-file --logger-file --attribute-file --status-fd --command-fd --command-file --debug-level',
      'reads or writes other files',
    ),
  ],
  otherwise: { letter: 'R', why: 'has to do with keys' },
  readOnly: list('--list-keys --list-secret-keys -k -K --verify --fingerprint --version'),
  tier: 'T1',
}
