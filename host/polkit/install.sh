#!/bin/sh
# Lets polkit ask the operators of this machine before a question of tier T2 is answered. Run as root:
#
#   host/polkit/install.sh USER...        installs it for these users
#   host/polkit/install.sh --remove       takes it away
set -eu

target=${SALLYPORT_POLKIT_ACTIONS:-/usr/share/polkit-1/actions}/org.sallyport.approve.policy
here=$(cd -- "$(dirname -- "$0")" && pwd)

fail() {
  echo "install.sh: $1" >&2
  exit "$2"
}

[ "$#" -gt 0 ] || fail 'name the operators: install.sh USER...' 2
if [ "$1" = --remove ]; then
  rm -f -- "$target"
  exit 0
fi

operators=
for user in "$@"; do
  case $user in
    *[!a-zA-Z0-9._-]* | -* | '') fail "\"$user\" is not the name of a user" 2 ;;
  esac
  uid=$(id -u -- "$user") || fail "there is no user \"$user\"" 1
  # polkit authorizes root for everything and asks for nothing: that proves nobody's presence.
  [ "$uid" -ne 0 ] || fail 'root is never asked: run the daemon as another user' 2
  operators="$operators${operators:+ }unix-user:$user"
done

[ -d "$(dirname -- "$target")" ] || fail "there is no polkit here: $(dirname -- "$target") is missing" 1
new=$(mktemp "$target.XXXXXX")
trap 'rm -f -- "$new"' EXIT
sed "s/@OPERATORS@/$operators/" "$here/org.sallyport.approve.policy" >"$new"
chmod 644 "$new"
mv -f -- "$new" "$target"
echo "installed $target for:$(printf ' %s' "$@")"
