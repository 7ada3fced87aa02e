#!/bin/sh
# Compiles the helper that asks the user of this Mac, and puts it where only root can replace it. Run as root:
#
#   host/macos/install.sh             needs swiftc (xcode-select --install)
#   host/macos/install.sh --remove    takes it away
set -eu

folder=/usr/local/libexec/sallyport
here=$(cd -- "$(dirname -- "$0")" && pwd)

if [ "${1:-}" = --remove ]; then
  rm -f -- "$folder/presence"
  exit 0
fi
[ "$(uname)" = Darwin ] || { echo 'install.sh: this is no Mac' >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || { echo 'install.sh: run it as root, with sudo' >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
swiftc -O -o "$work/presence" "$here/presence.swift"
# The folders above it too: who may write there may put another program in its place.
install -d -o root -g wheel -m 755 /usr/local/libexec "$folder"
install -o root -g wheel -m 755 "$work/presence" "$folder/presence"
echo "installed $folder/presence"
"$folder/presence" --check || echo 'macOS says that it cannot ask its user now: see above' >&2
