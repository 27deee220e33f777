// Package zone knows the names of clusterset.local: an immutable Index of
// services, and the pure functions Answer and Reply from an index and a
// question to what the specification of KEP-1645 prescribes.
// https://github.com/kubernetes/enhancements/blob/master/keps/sig-multicluster/1645-multi-cluster-services-api/specification.md
//
// Names in it are relative to their service: "" is the service itself,
// "_https._tcp" one of its ports. A kind of service that has more names (the
// hostnames of a headless one) adds them in names.go; nothing else changes.
package zone

const (
	// Name of the zone, which the KEP fixes.
	Name = "clusterset.local."
	// VersionName has a TXT record with the version of the schema.
	VersionName = "dns-version." + Name
	// Version of the schema that the KEP's specification describes.
	Version = "1.0.0"

	// ttl of records, and of the word that there is none, in seconds: how long a
	// client may go on with what has changed.
	ttl = 5
	// versionTTL is the KEP's.
	versionTTL = 28800
	// serviceLabel stands between the zone and its namespaces.
	serviceLabel = "svc"
	// serverName is the zone's name server as SOA and NS show it. It has no
	// address: the cluster's DNS forwards here by configuration, not by delegation.
	serverName = "ns.dns." + Name
)
