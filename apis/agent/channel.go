package agent

// HubHeader names, in a CONNECT to an agent, the channel address of the hub's
// gateway through which the target is to be reached. Without it the target is a
// neighbor's own gateway.
const HubHeader = "Weft-Hub"
