#!/bin/bash
# What `make check` does: formatting, vet, staticcheck, and generated files
# compared with a fresh generation in a copy of the tree.
set -euo pipefail
cd "$(dirname "$0")/../.."
failed=0

# Tracked files and new ones that are not ignored, as they are on disk now.
sources() { git ls-files --cached --others --exclude-standard -z "$@" | while IFS= read -r -d '' f; do [ ! -f "$f" ] || printf '%s\0' "$f"; done; }

echo "check: gofmt"
unformatted=$(sources '*.go' | xargs -0 gofmt -l)
if [ -n "$unformatted" ]; then
  printf 'gofmt would change these files; run gofmt -w on them:\n%s\n' "$unformatted" >&2
  failed=1
fi

echo "check: go vet"
"$GO" vet -p "$JOBS" ./... || failed=1

echo "check: staticcheck"
GOMAXPROCS="$JOBS" "$TOOLS/staticcheck" ./... || failed=1

echo "check: generated files"
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
sources | xargs -0 cp --parents -t "$copy"
bash "$copy/tools/codegen/generate.sh"
while IFS= read -r -d '' f; do
  if ! cmp -s "$f" "$copy/$f"; then
    echo "$f is not what its source generates; run 'make generate' and commit it" >&2
    failed=1
  fi
done < <(cd "$copy" && find apis dataplane -type f -print0 | sort -z)

[ "$failed" -eq 0 ] && echo "check: all good"
exit "$failed"
