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
before=$(mktemp -d)
after=$(mktemp -d)
trap 'rm -rf "$before" "$after"' EXIT
sources | xargs -0 cp --parents -t "$before"
cp -r "$before/." "$after"
bash "$after/tools/codegen/generate.sh"
if ! diff -rq "$before" "$after" | sed "s|$before/||g; s|$after/||g; s|$after||g" >&2; then
  echo "the files above are not what their sources generate; run 'make generate' and commit them" >&2
  failed=1
fi

[ "$failed" -eq 0 ] && echo "check: all good"
exit "$failed"
