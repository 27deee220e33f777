// Package multicluster holds the CustomResourceDefinitions of the Multi-Cluster
// Services API (KEP-1645), copied unchanged from sigs.k8s.io/mcs-api. Other
// programs share them, so they are installed only where there are none, and are
// removed only where Weft has installed them.
package multicluster

import "embed"

// Files are the definitions, one YAML document a file.
//
//go:embed *.yaml
var Files embed.FS
