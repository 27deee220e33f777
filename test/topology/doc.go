// Package topology holds tests that run real agents on nodes made of network
// namespaces: two or three clusters with the same pod CIDR, a minimal CNI, no
// Kubernetes. The agents read the same objects as in a cluster, from a
// directory per cluster.
package topology
