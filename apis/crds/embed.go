// Package crds holds the CustomResourceDefinitions of group net.weft.dev,
// which controller-gen makes from the types in apis/net/v1alpha1.
package crds

import "embed"

// Files are the definitions, one YAML document a file.
//
//go:embed *.yaml
var Files embed.FS
