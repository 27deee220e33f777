#!/bin/bash
# Installs the Debian packages named in $PACKAGES that are missing. Says
# nothing and needs no rights when there is nothing to do.
set -euo pipefail

go_minimum=1.26
if ! command -v go >/dev/null; then
  echo "setup: Go is missing; install Go $go_minimum or later from your distribution or go.dev and put it into PATH" >&2
  exit 1
fi
go_version=$(go env GOVERSION)
if [ "$(printf '%s\n' "$go_minimum" "${go_version#go}" | sort -V | head -n 1)" != "$go_minimum" ]; then
  echo "setup: Go ${go_version#go} is too old; install Go $go_minimum or later" >&2
  exit 1
fi

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is not a Debian system; install what these packages hold by hand, then run the target again with PACKAGES= : $PACKAGES" >&2
  [ -z "$PACKAGES" ] || exit 1
  exit 0
fi

missing=()
for package in $PACKAGES; do
  state=$(dpkg-query --show --showformat='${db:Status-Status}\n' "$package" 2>/dev/null || true)
  grep -qx installed <<<"$state" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: installing ${missing[*]} needs root; run 'make setup' as root once" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "setup: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
  "${as_root[@]}" apt-get update -q &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}
if ! install >"$log" 2>&1; then
  tail -n 30 "$log" >&2
  echo "setup: apt-get could not install ${missing[*]}; see above, mend the package sources and run 'make setup' again" >&2
  exit 1
fi
for service in etcd containerd; do
  if [[ " ${missing[*]} " == *" $service"* ]] && command -v systemctl >/dev/null && systemctl is-active --quiet "$service"; then
    echo "setup: Debian started its own $service service; Weft does not use it ('systemctl disable --now $service' if you do not either)"
  fi
done
