/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* From device to device, with or without an Ethernet header. */
#pragma once
#include "verdict.h"

/* Frames in the overlay carry one pair of addresses for all, none of them any
 * device's own (VXLAN drops a frame from the receiver's own address as a
 * loop); the receiver's program says that they are for the host. */
#define WEFT_ETHERNET_SOURCE { 0x02, 0x77, 0x65, 0x66, 0x74, 0x01 }
#define WEFT_ETHERNET_DESTINATION { 0x02, 0x77, 0x65, 0x66, 0x74, 0x02 }

WEFT_INLINE int weft_write_ethernet(struct __sk_buff *skb)
{
	const struct ethhdr header = {
		.h_dest = WEFT_ETHERNET_DESTINATION,
		.h_source = WEFT_ETHERNET_SOURCE,
		.h_proto = bpf_htons(ETH_P_IP),
	};
	struct ethhdr *ethernet = weft_at(skb, 0, sizeof(*ethernet));

	if (!ethernet)
		return -WEFT_WRITE_FAILED;
	*ethernet = header;
	return 0;
}

/* To the overlay's egress, or its ingress (BPF_F_INGRESS), which hands the
 * packet to the host's stack. Without an Ethernet header the kernel would drop
 * the packet silently. */
WEFT_INLINE int weft_to_overlay(struct __sk_buff *skb, __u64 flags)
{
	int result;

	if (!weft_l3_offset && bpf_skb_change_head(skb, ETH_HLEN, 0))
		return -WEFT_WRITE_FAILED;
	result = weft_write_ethernet(skb);
	if (result)
		return result;
	bpf_redirect(weft_overlay_ifindex, flags);
	return WEFT_REDIRECT;
}

/* To the egress of a link's lane, where the packet is translated. The kernel
 * removes an Ethernet header by itself. */
WEFT_INLINE int weft_to_lane(const struct weft_link *link)
{
	bpf_redirect(link->lane_ifindex, 0);
	return WEFT_REDIRECT;
}
