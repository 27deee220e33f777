/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The overlay's outer side: tunnel keys, and the guard that tells our own
 * nodes' packets from forged ones. */
#pragma once
#include "icmp.h"
#include "redirect.h"
#include "tables.h"

/* The structure of Linux 5.10: newer kernels accept it. */
#define WEFT_TUNNEL_KEY_SIZE offsetof(struct bpf_tunnel_key, local_ipv4)

#define WEFT_EINVAL 22

/* Sends the packet on to a node. Mark 0: the inner packet's mark must not
 * steer the outer one. */
WEFT_INLINE int weft_encapsulate(struct __sk_buff *skb, __be32 underlay)
{
	struct bpf_tunnel_key key = {
		.tunnel_id = weft_vni,
		.remote_ipv4 = bpf_ntohl(underlay),
		.tunnel_ttl = 64,
	};
	int result = weft_write_ethernet(skb);

	if (result)
		return result;
	skb->mark = 0;
	if (bpf_skb_set_tunnel_key(skb, &key, WEFT_TUNNEL_KEY_SIZE, BPF_F_ZERO_CSUM_TX | BPF_F_DONT_FRAGMENT))
		return -WEFT_WRITE_FAILED;
	return WEFT_PASS;
}

/* Who sent the packet through the overlay. */
struct weft_sender {
	bool tunneled; /* false: redirected by this node itself */
	bool gateway;
	__be32 underlay;
};

/* First half of the guard, for whatever the tunnel carries. */
WEFT_INLINE int weft_check_outer(struct __sk_buff *skb, struct weft_sender *sender)
{
	struct bpf_tunnel_key key = {};
	int result = bpf_skb_get_tunnel_key(skb, &key, WEFT_TUNNEL_KEY_SIZE, 0);
	__u32 *node;

	if (result == -WEFT_EINVAL) { /* no key: a redirect removes it */
		sender->tunneled = false;
		return 0;
	}
	if (result) /* outer IPv6 */
		return -WEFT_TUNNEL_UNKNOWN_NODE;
	sender->tunneled = true;
	sender->underlay = bpf_htonl(key.remote_ipv4);
	node = bpf_map_lookup_elem(&weft_nodes4, &sender->underlay);
	if (!node)
		return -WEFT_TUNNEL_UNKNOWN_NODE;
	if (key.tunnel_id != weft_vni)
		return -WEFT_TUNNEL_WRONG_VNI;
	sender->gateway = *node & WEFT_NODE_GATEWAY;
	return 0;
}

/* Second half: the inner source must be at home where the packet came from. An
 * error may come from a router that nobody exports. */
WEFT_INLINE int weft_check_inner4(const struct weft_packet *packet, const struct weft_sender *sender)
{
	struct weft_place4 place;
	struct weft_net net;

	if (weft_view(packet->source, &net) && net.cluster != WEFT_SELF)
		return sender->gateway ? 0 : -WEFT_TUNNEL_SOURCE;
	if (weft_place(packet->source, &place))
		return place.underlay == sender->underlay ? 0 : -WEFT_TUNNEL_SOURCE;
	return weft_is_icmp_error(packet) ? 0 : -WEFT_TUNNEL_SOURCE;
}
