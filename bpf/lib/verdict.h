/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How a program ends. Every function returns 0 (go on), a positive
 * weft_verdict, or a negative weft_reason; weft_finish alone turns that into a
 * TC action and counts the packet, exactly once. */
#pragma once
#include <linux/pkt_cls.h>
#include "maps.h"
#include "packet.h"

enum weft_verdict {
	WEFT_PASS = 1, /* on along the device's own path, other programs included */
	WEFT_REDIRECT, /* bpf_redirect was called */
	WEFT_END, /* a probe that has done its work */
};

WEFT_INLINE void weft_count(const struct weft_packet *packet, __u32 reason)
{
	__u32 index = (packet->link * WEFT_DIRECTIONS + packet->direction) * WEFT_MAX_REASONS + reason;
	struct weft_counter *counter = bpf_map_lookup_elem(&weft_counters, &index);

	if (!counter)
		return;
	counter->packets++;
	counter->bytes += packet->bytes;
}

WEFT_INLINE int weft_finish(const struct weft_packet *packet, int result)
{
	if (result < 0) {
		weft_count(packet, -result);
		return TC_ACT_SHOT;
	}
	if (packet->outcome != WEFT_UNCOUNTED)
		weft_count(packet, packet->outcome);
	if (result == WEFT_REDIRECT)
		return TC_ACT_REDIRECT;
	if (result == WEFT_END)
		return TC_ACT_SHOT;
	return TC_ACT_UNSPEC;
}
