package v1alpha1

// Reasons of conditions by which programs, not only people, tell what is the
// matter: weftctl turns them into advice. ReasonTornDown and those of a
// ForeignClusterConnection stand beside their types.
const (
	// Of a ForeignCluster.

	// ReasonPeerLeft: the other side has ended the peering.
	ReasonPeerLeft = "PeerLeft"
	// ReasonOwnIdentity: it is this cluster itself.
	ReasonOwnIdentity = "OwnIdentity"
	// ReasonDuplicate: an older ForeignCluster has the same identity.
	ReasonDuplicate = "Duplicate"
	// ReasonDialing: there is no channel to its controller yet.
	ReasonDialing = "Dialing"
	// ReasonWaitingForPeer: it has not said yet which networks and addresses it has.
	ReasonWaitingForPeer = "WaitingForPeer"
	// ReasonWaitingForAgents: gateways here have not taken up its networks yet.
	ReasonWaitingForAgents = "WaitingForAgents"
	// ReasonProbing: no probe has been answered yet.
	ReasonProbing = "Probing"

	// Of FabricConfig's condition Ready.

	// ReasonNetworksInvalid: the own networks are not known or cannot be exported.
	ReasonNetworksInvalid = "NetworksInvalid"
	// ReasonEndpointsInvalid: an endpoint of the gateways is no address or name.
	ReasonEndpointsInvalid = "EndpointsInvalid"
	// ReasonPoolExhausted: no block is free.
	ReasonPoolExhausted = "PoolExhausted"
	// ReasonNoGateway: no node can be one.
	ReasonNoGateway = "NoGateway"
	// ReasonAgentsNotReady: nodes are to blame, whose own conditions say more.
	ReasonAgentsNotReady = "AgentsNotReady"
)

// SideUnreachable is the state of a side of a ForeignClusterConnection that
// cannot be heard.
const SideUnreachable = "Unreachable"

// ConditionIntroductions of a ForeignCluster says what became of the clusters
// that it introduces here. Absent while it introduces none.
const ConditionIntroductions = "Introductions"

// ConditionServices of a ForeignCluster says what became of the services that it
// exports to this cluster. Absent while it exports none.
const ConditionServices = "Services"
