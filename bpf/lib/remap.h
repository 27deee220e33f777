/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The translation itself: what an address becomes by a row, and the writing of
 * both addresses with their checksums. */
#pragma once
#include "csum.h"
#include "parse.h"
#include "tables.h"
#include "verdict.h"

/* What is to be written into the IP header. */
struct weft_change {
	__be32 source;
	__be32 destination;
	__u32 difference; /* that the new addresses add to a sum, see csum.h */
	bool hop; /* decrement the TTL */
};

WEFT_INLINE __be32 weft_to_wire(const struct weft_row4 *row, __be32 address, __u32 *difference)
{
	*difference += row->delta;
	return row->wire | (address & ~row->mask);
}

WEFT_INLINE __be32 weft_to_local(const struct weft_row4 *row, __be32 address, __u32 *difference)
{
	if (row->delta)
		*difference += (__u16)~row->delta;
	return row->local | (address & ~row->mask);
}

WEFT_INLINE int weft_write_ip4(struct __sk_buff *skb, const struct weft_change *change)
{
	struct iphdr *ip = weft_at(skb, weft_l3_offset, sizeof(*ip));
	__u32 difference = change->difference;

	if (!ip)
		return -WEFT_WRITE_FAILED;
	ip->saddr = change->source;
	ip->daddr = change->destination;
	if (change->hop) {
		ip->ttl--;
		difference += (__u16)~bpf_htons(0x0100); /* the upper byte of its word */
	}
	if (difference)
		ip->check = weft_update(ip->check, difference);
	return 0;
}

/* The transport checksum changes through the helper alone, so that partial
 * checksums of offload and complete ones of receive offload stay right. */
WEFT_INLINE int weft_write4(struct __sk_buff *skb, const struct weft_packet *packet,
			    const struct weft_change *change)
{
	__u32 offset = weft_checksum_offset(packet->protocol);
	__u64 flags = BPF_F_PSEUDO_HDR;
	int result;

	result = weft_write_ip4(skb, change);
	if (result)
		return result;
	if (!change->difference || packet->fragment == WEFT_LATER_FRAGMENT || offset == WEFT_NO_CHECKSUM)
		return 0;
	if (weft_zero_is_special(packet->protocol))
		flags |= BPF_F_MARK_MANGLED_0;
	if (bpf_l4_csum_replace(skb, packet->l4 + offset, 0, weft_fold(change->difference), flags))
		return -WEFT_WRITE_FAILED;
	return 0;
}
