import { list, row, type ProgramTable } from './table.ts'

export const PS: ProgramTable = {
  names: ['ps'],
  style: 'gnu',
  valued: 'oOpuUgGtsCk',
  rows: [row('R', '', 'shows environments', { operand: /^[a-zA-Z]*e[a-zA-Z]*$/ }), row('R', '-E', 'shows environments')],
  readOnly: ['*'],
}

export const JOURNAL: ProgramTable = {
  names: ['journalctl', 'dmesg', 'last', 'log'],
  style: 'gnu',
  valued: 'unpotSUg',
  operandsAreNames: true,
  rows: [
    row('R', '--file --directory -D --root --image -M --machine', 'reads other logs'),
    row(
      'W',
      '--vacuum-size --vacuum-time --vacuum-files --rotate --flush --sync --setup-keys --cursor-file -C --clear -c',
      'deletes or changes logs',
    ),
    row('R', '-f --follow -w', 'waits without end'),
  ],
  readOnly: ['*'],
  environment: { SYSTEMD_PAGER: 'cat', PAGER: 'cat' },
}

/** Programs that change what runs on this machine. */
export const SERVICES: ProgramTable = {
  names: list(
    'systemctl service rc-service loginctl timedatectl hostnamectl localectl networkctl resolvectl nmcli ufw iptables nft ip ifconfig route sysctl mount umount swapon modprobe insmod rmmod shutdown reboot halt poweroff init telinit useradd usermod userdel passwd chsh chfn visudo defaults scutil networksetup pmset tmutil diskutil hdiutil csrutil spctl codesign kextload nvram dscl systemsetup',
  ),
  style: 'gnu',
  operandsAreNames: true,
  rows: [
    row(
      'X',
      'start stop restart reload try-restart enable disable mask unmask edit link daemon-reload set-default isolate kill set-property import-environment set-environment revert preset',
      'changes what runs',
    ),
    row('C', '--root --image -H --host -M --machine', 'works on another system'),
    row('W', 'write delete import rename', 'changes settings'),
  ],
  otherwise: { letter: 'X', why: 'changes the machine' },
  readOnly: list(
    'status show list-units list-unit-files list-timers list-sockets is-active is-enabled is-failed cat read addr/show link/show route/show --version',
  ),
  environment: { SYSTEMD_PAGER: 'cat' },
  tier: 'T2',
}

/** Clipboard, screen and the desktop of the operator. */
export const DESKTOP: ProgramTable = {
  names: list(
    'pbpaste pbcopy xclip xsel wl-paste wl-copy screencapture scrot grim import notify-send say osascript automator shortcuts xdotool ydotool cliclick xte wtype screenrecord ffmpeg zenity kdialog',
  ),
  style: 'gnu',
  rows: [],
  otherwise: { letter: 'R', why: 'reaches the clipboard, the screen or the desktop' },
  readOnly: [],
  tier: 'T2',
}

export const KILL: ProgramTable = {
  names: list('kill pkill killall skill snice renice fuser'),
  style: 'gnu',
  operandsAreNames: true,
  rows: [],
  otherwise: { letter: 'X', why: 'ends or stops processes of the operator' },
  readOnly: list('-l -L --list'),
  tier: 'T1',
}

/** What writes to disks and devices. */
export const DISKS: ProgramTable = {
  names: list(
    'mkfs mkswap fdisk parted sfdisk gdisk wipefs losetup cryptsetup lvm pvcreate vgcreate lvcreate zfs zpool btrfs badblocks hdparm blkdiscard fsck e2fsck tune2fs resize2fs',
  ),
  style: 'gnu',
  rows: [],
  otherwise: { letter: 'W', why: 'changes disks' },
  readOnly: ['--version'],
  tier: 'T2',
}

/** Shows something of the machine, and nothing else. */
export const SHOWERS: ProgramTable = {
  names: list(
    'lsof ss netstat df free uptime sw_vers lsblk lscpu lsusb lspci vmstat iostat w who users pgrep pidof sysinfo system_profiler getconf getent ulimit',
  ),
  style: 'gnu',
  operandsAreNames: true,
  rows: [row('R', '-K --kill', 'closes connections')],
  readOnly: ['*'],
}
