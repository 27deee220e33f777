/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The contract with user space: every type that is a key or a value of a map.
 * bpf2go turns these into the Go types of dataplane/bpfgen; nothing on the Go
 * side repeats a layout. Addresses and ports are in network byte order. */
#pragma once
#include <linux/types.h>

/* Version of everything below, part of the pin path. */
#define WEFT_ABI 1

/* The cluster index of this cluster itself. */
#define WEFT_SELF 0
#define WEFT_MAX_CLUSTERS 256
/* Links are numbered from 1 by the agent of the gateway that owns them. */
#define WEFT_MAX_LINKS 256
#define WEFT_MAX_REASONS 64

/* A network as the data plane knows it: who exports it and which one it is. */
struct weft_net {
	__u8 flags; /* WEFT_NET_* */
	__u8 prefix_len; /* in bits */
	__u8 cluster; /* index; WEFT_SELF for our own networks */
	__u8 network; /* index within the cluster */
};

#define WEFT_NET_VALID 0x01 /* this entry names a network */
#define WEFT_NET_LONGER 0x02 /* longer prefixes may exist: try the second level */
#define WEFT_NET_NODE 0x04 /* kind Node: host 0 belongs to probes */

/* Key of every "hash per distinct prefix length" table. */
struct weft_prefix4 {
	__be32 prefix;
	__u32 prefix_len;
};

/* A wire prefix as seen at ingress: whose networks enter from which link. */
struct weft_wire {
	__u16 link;
	__u8 flags; /* WEFT_NET_VALID, WEFT_NET_LONGER, WEFT_NET_NODE */
	__u8 prefix_len;
	__u8 cluster;
	__u8 network;
	__u16 reserved;
};

/* Destinations at ingress are names that the neighbor chose, so the table is
 * searched per link. */
struct weft_theirs_key {
	__be32 prefix;
	__u16 link;
	__u8 prefix_len;
	__u8 reserved;
};

#define WEFT_SIDE_OURS 0
#define WEFT_SIDE_THEIRS 1

/* Key of a bijection: a link, who chose it, and which network it carries. */
struct weft_row_key {
	__u16 link;
	__u8 side; /* WEFT_SIDE_* */
	__u8 cluster;
	__u8 network;
	__u8 reserved[3];
};

/* A bijection between two prefixes of one length. */
struct weft_row4 {
	__be32 local; /* real or view, host bits zero */
	__be32 wire; /* host bits zero */
	__be32 mask;
	__u16 delta; /* RFC 1624: what going from local to wire adds to a sum */
	__u16 reserved;
};

/* A link: one of our gateways (this node) and one gateway of a neighbor. */
struct weft_link {
	__u8 flags; /* WEFT_LINK_* */
	__u8 cluster; /* the neighbor's cluster index */
	__u8 own_gateway;
	__u8 remote_gateway;
	__u32 theirs_lengths; /* bit n-1: prefixes of length n exist in theirs */
	__u32 lane_ifindex;
	__u32 outer_fragments; /* seen by this node from the far gateway */
};

#define WEFT_LINK_VALID 0x01

/* Which clusters a link may bring traffic from. */
struct weft_accept_key {
	__u16 link;
	__u8 cluster;
	__u8 reserved;
};

/* What is common to all paths towards a cluster. */
struct weft_cluster {
	__u32 mtu; /* bytes at L3, minimum over all permitted paths; 0: unknown cluster */
	__u32 reserved;
};

/* Where an address of our own cluster is. */
struct weft_place4 {
	__be32 underlay; /* address of the node that hosts it */
	__u32 flags; /* WEFT_PLACE_* */
};

#define WEFT_PLACE_LOCAL 0x01 /* on this node */
#define WEFT_PLACE_FABRIC 0x02 /* a node's fabric address */

/* A gateway of our own cluster, by gateway id. */
struct weft_gateway4 {
	__be32 underlay;
	__u32 flags; /* WEFT_PLACE_LOCAL, or 0; underlay 0: no such gateway */
};

/* A node of our own cluster, by underlay address. */
#define WEFT_NODE_GATEWAY 0x01 /* may send what comes from other clusters */

/* What a gateway can reach: one bit per cluster index. */
struct weft_reach {
	__u64 bits[WEFT_MAX_CLUSTERS / 64];
};

/* Counter index: (link * WEFT_DIRECTIONS + direction) * WEFT_MAX_REASONS + reason. */
#define WEFT_LANE_INGRESS 0
#define WEFT_LANE_EGRESS 1
#define WEFT_OVERLAY_INGRESS 2
#define WEFT_OVERLAY_EGRESS 3
#define WEFT_DIRECTIONS 4

struct weft_counter {
	__u64 packets;
	__u64 bytes; /* at L3 */
};

/* A probe, the payload of a UDP datagram to the probe port. */
#define WEFT_PROBE_VERSION 1
#define WEFT_PROBE_REQUEST 1
#define WEFT_PROBE_ANSWER 2

struct weft_probe {
	__u8 version;
	__u8 type; /* WEFT_PROBE_* */
	__be16 flags;
	__be32 sequence;
	__be64 clock_ns; /* the sender's, opaque to the reflector */
	__be32 sender; /* opaque to the reflector: tells probers apart */
	__be32 outer_fragments; /* the reflector's count for this link */
	struct weft_reach reach; /* node probes: what the gateway can reach */
};

_Static_assert(sizeof(struct weft_net) == 4, "weft_net");
_Static_assert(sizeof(struct weft_prefix4) == 8, "weft_prefix4");
_Static_assert(sizeof(struct weft_wire) == 8, "weft_wire");
_Static_assert(sizeof(struct weft_theirs_key) == 8, "weft_theirs_key");
_Static_assert(sizeof(struct weft_row_key) == 8, "weft_row_key");
_Static_assert(sizeof(struct weft_row4) == 16, "weft_row4");
_Static_assert(sizeof(struct weft_link) == 16, "weft_link");
_Static_assert(sizeof(struct weft_probe) == 56, "weft_probe");
