/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The peer channel: IPv6 between two channel addresses, TCP, the channel's
 * port on one side. It needs no translation; nothing else in IPv6 may use a
 * lane. */
#pragma once
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include "verdict.h"

#define WEFT_CHANNEL_PREFIX 0xfd79 /* /16 */

WEFT_INLINE int weft_channel(struct __sk_buff *skb, struct weft_packet *packet)
{
	struct ipv6hdr *ip = weft_at(skb, weft_l3_offset, sizeof(*ip) + sizeof(struct tcphdr));
	__be16 port = bpf_htons(weft_channel_port);
	struct tcphdr *tcp;

	if (!ip || ip->version != 6 || ip->nexthdr != IPPROTO_TCP)
		return -WEFT_IPV6;
	if (ip->saddr.s6_addr16[0] != bpf_htons(WEFT_CHANNEL_PREFIX) ||
	    ip->daddr.s6_addr16[0] != bpf_htons(WEFT_CHANNEL_PREFIX))
		return -WEFT_IPV6;
	tcp = (void *)(ip + 1);
	if (tcp->source != port && tcp->dest != port)
		return -WEFT_IPV6;
	packet->outcome = WEFT_CHANNEL;
	return WEFT_PASS;
}
