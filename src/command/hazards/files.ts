import { list, row, type ProgramTable } from './table.ts'

const RUN = 'runs a program'
const WRITE = 'writes a file'
const READ = 'takes the names of files, or patterns, from a file'

/** GNU findutils and fd. An expression of find has no end of options. */
export const FIND: ProgramTable = {
  names: ['find', 'gfind'],
  style: 'exact',
  rows: [
    row('X', '-exec -execdir -ok -okdir', RUN),
    row('W', '-delete', 'deletes files'),
    row('W', '-fprint -fprint0 -fprintf -fls', WRITE),
    row('R', '-files0-from', READ),
    row('R', '-L -H -follow -D', 'follows links out of the workspace, or shows how it works'),
  ],
  readOnly: ['*'],
}

export const FD: ProgramTable = {
  names: ['fd', 'fdfind'],
  style: 'gnu',
  valued: 'dtesSoCcE',
  rows: [
    row('X', '-x --exec -X --exec-batch', RUN),
    row('R', '--base-directory --search-path -C', 'looks in another folder'),
    row('R', '--ignore-file', READ),
    row('R', '-L --follow', 'follows links out of the workspace'),
  ],
  readOnly: ['*'],
}

export const GREP: ProgramTable = {
  names: ['grep', 'egrep', 'fgrep', 'zgrep', 'ggrep'],
  style: 'gnu',
  valued: 'eABCmdDf',
  valuedLong: list('--regexp --max-count --context --after-context --before-context --include --exclude --exclude-dir --label --color'),
  rows: [
    row('R', '-f --file --exclude-from', READ),
    row('R', '-R --dereference-recursive', 'follows links out of the workspace'),
    row('R', '-P --perl-regexp', 'may take time without end'),
    row('X', '--decompress', 'runs programs to unpack'),
  ],
  readOnly: ['*'],
}

export const RG: ProgramTable = {
  names: ['rg', 'rga', 'ag', 'ack', 'ugrep', 'ug'],
  style: 'gnu',
  valued: 'eABCgtTmjMrdf',
  rows: [
    row('X', '--pre --pre-glob --hostname-bin --pager --view --filter', RUN),
    row('X', '-z --search-zip --decompress', 'runs programs to unpack'),
    row('R', '-f --file --ignore-file --ackrc', READ),
    row('R', '-L --follow -u --unrestricted --hidden --no-ignore', 'looks at what is hidden, or follows links out of the workspace'),
  ],
  readOnly: ['*'],
}

/** Scripts of sed run programs, write and read files: `e`, `s///e`, `w`, `r`. GNU's --sandbox refuses them. */
export const SED: ProgramTable = {
  names: ['sed', 'gsed'],
  style: 'gnu',
  valued: 'efl',
  rows: [
    row('X', '', 'a script may run programs, write and read files: --sandbox refuses that', { operandsMin: 0, unless: '--sandbox' }),
    row('W', '-i --in-place', 'rewrites files'),
    row('X', '-f --file', 'takes a script from a file'),
    row('R', '-s --separate --follow-symlinks', 'treats files one by one, or follows links'),
  ],
  readOnly: ['*'],
}

export const TAR: ProgramTable = {
  names: ['tar', 'gtar', 'bsdtar'],
  style: 'bundle',
  valued: 'fbCFgHIKLNTVX',
  rows: [
    row(
      'X',
      '--checkpoint-action --to-command -I --use-compress-program -F --info-script --new-volume-script --rsh-command --rmt-command',
      RUN,
    ),
    row('X', '-f --file', 'an archive of another machine, fetched by a program', { value: /:|^@/ }),
    row(
      'W',
      '-x --extract --get -C --directory -P --absolute-names --overwrite --unlink-first --recursive-unlink --transform --xform -s --strip-components --one-top-level --keep-old-files -U',
      'writes files anywhere',
    ),
    row('R', '-T --files-from -X --exclude-from', `${READ}, and options with them`),
    row(
      'W',
      '--index-file -g --listed-incremental --remove-files -r --append -u --update -A --catenate --concatenate --delete',
      'writes or deletes files',
    ),
    row('R', '-c --create', 'reads any file into an archive'),
    row('R', '', 'an archive in place of a file', { operand: /^@/ }),
  ],
  readOnly: list('-t t --list tf tvf -tf -tvf tzf -tzf -tvzf tvzf'),
}

export const ARCHIVERS: ProgramTable = {
  names: [
    'zip',
    'unzip',
    '7z',
    '7za',
    '7zz',
    'rar',
    'unrar',
    'gzip',
    'gunzip',
    'bzip2',
    'xz',
    'zstd',
    'lz4',
    'ar',
    'cpio',
    'zipinfo',
    'zcat',
    'xzcat',
    'bzcat',
    'zstdcat',
  ],
  style: 'gnu',
  valued: 'dxoPt',
  rows: [
    row('X', '-T -TT --unzip-command -TT=', RUN),
    row('W', '-d -o -x --output-dir -m --move', 'writes or deletes files'),
    row('R', '', 'names from a file', { operand: /^@/ }),
  ],
  otherwise: { letter: 'W', why: 'writes files' },
  readOnly: list('-l -v -Z -t --list l zipinfo'),
}

export const SORT: ProgramTable = {
  names: ['sort', 'gsort'],
  style: 'gnu',
  valued: 'koSTt',
  rows: [
    row('X', '--compress-program', RUN),
    row('W', '-o --output', WRITE),
    row('W', '-T --temporary-directory', 'writes in another folder'),
    row('R', '--files0-from --random-source', READ),
    row('W', '-S --buffer-size --parallel', 'takes memory of any size'),
  ],
  readOnly: ['*'],
}

/** Coreutils that only read, and what each of them does beyond that. */
export const READERS: readonly ProgramTable[] = [
  reader('uniq', [row('W', '', 'writes its second operand', { operandsMin: 2 })], 'fsw'),
  reader('split', [row('X', '--filter', RUN), row('W', '', WRITE, { operandsMin: 0, unless: '--version' })], 'abClnt'),
  reader('csplit', [row('W', '', WRITE, { operandsMin: 0, unless: '--version' })], 'bfn'),
  reader('wc du', [row('R', '--files0-from', READ), row('R', '-X --exclude-from -L --dereference', READ)], 'dBt'),
  reader('tail head', [row('R', '-f -F --follow --retry --pid', 'waits without end')], 'cns'),
  reader(
    'diff cmp comm sdiff diff3',
    [
      row('R', '-r --recursive --exclude-from -X --to-file --from-file -N', READ),
      row('W', '-o --output', WRITE),
      row('X', '--diff-program', RUN),
    ],
    'UCILWxcin',
  ),
  reader('shuf ptx', [row('W', '-o --output', WRITE), row('R', '--random-source', READ)], 'nio'),
  reader(
    'file',
    [
      row('R', '-f --files-from -m --magic-file', READ),
      row('W', '-C --compile', WRITE),
      row('X', '-z -Z --uncompress', 'runs programs to unpack'),
    ],
    'feFmP',
  ),
  reader(
    'tree',
    [row('W', '-o', WRITE), row('R', '--fromfile --fromtabfile', READ), row('R', '-l', 'follows links out of the workspace')],
    'LPIoH',
  ),
  reader('date', [row('R', '-f --file', READ), row('W', '-s --set', 'sets the clock')], 'dfrsI'),
  reader(
    'jq gojq jaq',
    [
      row('R', '-f --from-file --slurpfile --rawfile -L --library-path --argfile', READ),
      row('R', '', 'shows the environment', { operand: /\$ENV|\benv\b|input_filename|\binclude\b|\bimport\b/ }),
    ],
    'fL',
  ),
  reader(
    'yq dasel',
    [
      row('W', '-i --inplace --in-place', 'rewrites files'),
      row('R', '--split-exp --from-file -s', READ),
      row('R', '', 'reads files or the environment', { operand: /\bload\w*\s*\(|\bstrenv\b|\benv\b/ }),
    ],
    'oIps',
  ),
  reader(
    'xmllint xsltproc xmlstarlet',
    [
      row('R', '--noent --path --loaddtd --xinclude --dtdvalid --dtdattr --schema --catalogs --nonet=', 'loads other files and addresses'),
      row('W', '-o --output', WRITE),
      row('X', '--shell', 'takes commands'),
    ],
    'o',
  ),
  reader(
    'cut tr cat tac nl join paste fold fmt expand unexpand column pr od hexdump xxd strings rev numfmt seq echo printf true false basename dirname pwd readlink realpath stat ls id groups whoami uname which nproc sha256sum sha1sum sha512sum md5sum shasum b2sum cksum sum base64 base32 test expr factor sleep tput tty hostname arch locale cloc tokei scc',
    [row('R', '--follow --reference', 'follows, or reads another file')],
    'dfcnwsb',
  ),
]

/** Programs that change files, all of them. */
export const WRITERS: ProgramTable = {
  names: list(
    'cp mv rm ln mkdir rmdir touch chmod chown chgrp truncate install shred unlink mknod mkfifo mktemp setfacl xattr chattr patch rename ditto sponge link',
  ),
  style: 'gnu',
  valued: 'tSmgo',
  rows: [
    row('X', '--strip-program', RUN),
    row('W', '-r -R --recursive -f --force', 'goes through whole folders, or does not ask'),
    row(
      'R',
      '-T --files-from --backup --parents -t --target-directory --reference -i --input -o --output',
      'takes another place to write to or to read from',
    ),
    row('W', '', 'sets rights that others run by', { operand: /^(?:[ugoa]*\+[a-zA-Z]*s|[2467]\d{3})$/ }),
  ],
  readOnly: [],
}

function reader(names: string, rows: ProgramTable['rows'], valued: string): ProgramTable {
  // One that writes whatever it is told only says its version.
  const isReader = rows.every(({ operandsMin }) => operandsMin !== 0)
  return { names: list(names), style: 'gnu', valued, rows, readOnly: [isReader ? '*' : '--version'] }
}
