#!/bin/bash
# Regenerates everything that is generated, in the repository that holds this
# script: deepcopy functions and CRDs, protobufs, BPF objects and their Go side.
# $TOOLS is the folder with controller-gen and the protoc plugins.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=$(clang --version | sed -n 's/.*clang version \([0-9]*\)\..*/\1/p' | head -n 1)
if [ "$version" != "$CLANG_VERSION" ]; then
  echo "generate: clang $version would compile other BPF objects than clang $CLANG_VERSION, which made the committed ones; put Debian's clang-$CLANG_VERSION first in PATH as 'clang'" >&2
  exit 1
fi

"$TOOLS/controller-gen" object paths=./apis/net/v1alpha1
"$TOOLS/controller-gen" crd paths=./apis/net/v1alpha1 output:crd:dir=apis/crds

# The directives beside the code: protobufs (protoc finds its plugins in PATH)
# and BPF objects.
PATH="$TOOLS:$PATH" "${GO:-go}" generate ./apis/... ./dataplane/...
