package peering

import "github.com/weft-fabric/weft/apis/net/v1alpha1"

// ConditionDuplicate is True on a ForeignCluster whose identity an older one
// has already; it is absent otherwise.
const ConditionDuplicate = "Duplicate"

// Reasons of a ForeignCluster's conditions.
const (
	ReasonValid         = "Valid"
	ReasonInvalidRecord = "InvalidRecord"
	ReasonOwnIdentity   = v1alpha1.ReasonOwnIdentity
	ReasonDuplicate     = v1alpha1.ReasonDuplicate
	ReasonNoFabric      = "FabricNotReady"

	ReasonEstablished = "Established"
	ReasonDialing     = v1alpha1.ReasonDialing
	ReasonPeerLeft    = v1alpha1.ReasonPeerLeft

	ReasonReady            = "Ready"
	ReasonWaitingForPeer   = v1alpha1.ReasonWaitingForPeer
	ReasonWaitingForAgents = v1alpha1.ReasonWaitingForAgents
	ReasonRefused          = "Refused"
	ReasonPrefixes         = "NoPrefix"
	ReasonNoNeighbor       = "NoNeighbor"
	ReasonNoWay            = "NoWay"

	ReasonLinksUp    = "LinksUp"
	ReasonThroughHub = "ThroughHub"
	ReasonLinksDown  = "LinksDown"
	ReasonProbing    = v1alpha1.ReasonProbing
	ReasonNotReady   = "NotReady"
	ReasonUnreadable = "MeasurementsUnreadable"

	ReasonWhole            = "PacketsWhole"
	ReasonOuterFragments   = "OuterFragments"
	ReasonLargePacketsLost = "LargePacketsLost"
)
