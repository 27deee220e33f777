package peering

// ConditionDuplicate is True on a ForeignCluster whose identity an older one
// has already; it is absent otherwise.
const ConditionDuplicate = "Duplicate"

// Reasons of a ForeignCluster's conditions.
const (
	ReasonValid         = "Valid"
	ReasonInvalidRecord = "InvalidRecord"
	ReasonOwnIdentity   = "OwnIdentity"
	ReasonDuplicate     = "Duplicate"
	ReasonNoFabric      = "FabricNotReady"

	ReasonEstablished = "Established"
	ReasonDialing     = "Dialing"
	ReasonPeerLeft    = "PeerLeft"

	ReasonReady            = "Ready"
	ReasonWaitingForPeer   = "WaitingForPeer"
	ReasonWaitingForAgents = "WaitingForAgents"
	ReasonRefused          = "Refused"
	ReasonPrefixes         = "NoPrefix"
	ReasonNoNeighbor       = "NoNeighbor"

	ReasonLinksUp    = "LinksUp"
	ReasonLinksDown  = "LinksDown"
	ReasonProbing    = "Probing"
	ReasonNotReady   = "NotReady"
	ReasonUnreadable = "MeasurementsUnreadable"

	ReasonWhole            = "PacketsWhole"
	ReasonOuterFragments   = "OuterFragments"
	ReasonLargePacketsLost = "LargePacketsLost"
)
