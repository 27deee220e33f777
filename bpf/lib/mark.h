/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Notes from one hook to the next, in the skb's cb[], which survives a
 * redirect. At egress cb[] may hold leftovers of the IP layer, so that a note
 * is two words that nothing else writes: the second would be the length of IP
 * options in its lowest byte, which is never above 40. */
#pragma once
#include "packet.h"

enum weft_mark {
	WEFT_MARK_NONE = 0,
	WEFT_MARK_WIRE = 0x9e8f51d3, /* in wire form already: a reflected probe */
	WEFT_MARK_HOP = 0xb7a26cf5, /* this hop has decremented the TTL already */
};

#define WEFT_MARK_MAGIC 0x57656674

WEFT_INLINE void weft_mark_set(struct __sk_buff *skb, __u32 mark)
{
	skb->cb[0] = WEFT_MARK_MAGIC;
	skb->cb[1] = mark;
}

/* Returns the note and removes it. */
WEFT_INLINE __u32 weft_mark_take(struct __sk_buff *skb)
{
	__u32 mark = skb->cb[1];

	if (skb->cb[0] != WEFT_MARK_MAGIC)
		return WEFT_MARK_NONE;
	skb->cb[0] = 0;
	skb->cb[1] = 0;
	return mark;
}
