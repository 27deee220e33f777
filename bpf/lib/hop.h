/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Time to live and size: BPF builds no ICMP, the host's stack answers in the
 * local view for what ends here. */
#pragma once
#include "packet.h"
#include "redirect.h"

#define WEFT_GSO_BY_FRAGS 0xffff /* include/linux/skbuff.h */

/* Bytes at L3 of the longest packet that this becomes on the wire; 0: unknown.
 * The length of an aggregate (GSO) says nothing. Those of SCTP tell no size of
 * their parts: the stack that sent it here has compared each with the route. */
WEFT_INLINE __u32 weft_wire_length(const struct __sk_buff *skb, const struct weft_packet *packet)
{
	if (!skb->gso_size)
		return packet->length;
	if (skb->gso_size == WEFT_GSO_BY_FRAGS)
		return 0;
	return packet->l4 - weft_l3_offset + packet->l4_header + skb->gso_size;
}

/* Returns true, with the outcome to count, if the host's stack has to see the
 * packet. An MTU of 0 is no limit. */
WEFT_INLINE bool weft_ends_here(const struct __sk_buff *skb, struct weft_packet *packet, bool hop, __u32 mtu)
{
	if (hop && packet->ttl <= 1) {
		packet->outcome = WEFT_TTL_EXCEEDED;
		return true;
	}
	if (mtu && weft_wire_length(skb, packet) > mtu) {
		packet->outcome = WEFT_TOO_BIG;
		return true;
	}
	return false;
}
