#!/bin/bash
# Prints the import paths of the programs of this module: everything in cmd/,
# and the programs of the build machine in tools/.
set -euo pipefail
cd "$(dirname "$0")/.."
for dir in cmd/* tools/lab tools/demo tools/traffic; do
  if compgen -G "$dir/*.go" >/dev/null; then echo "./$dir"; fi
done
