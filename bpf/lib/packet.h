/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the programs know of the packet at hand, and the one way to reach its
 * bytes. */
#pragma once
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <stddef.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "config.h"
#include "reasons.h"

#define WEFT_INLINE static __always_inline
/* A function of its own; not every program uses each. */
#define WEFT_FUNCTION static __noinline __attribute__((unused))
/* The same, and verified by itself, whatever its arguments are: for loops. It
 * takes and returns numbers alone (Linux 5.10 allows nothing else but the
 * context), so small structures travel in a register. */
#define WEFT_GLOBAL __noinline

enum weft_fragment {
	WEFT_WHOLE,
	WEFT_FIRST_FRAGMENT,
	WEFT_LATER_FRAGMENT, /* has no transport header */
};

struct weft_packet {
	__u32 link; /* 0 until it is known */
	__u32 direction; /* WEFT_LANE_INGRESS and so on */
	__u32 outcome; /* what to count unless it is dropped */
	__u32 bytes; /* at L3, as received */
	__u32 length; /* bytes at L3 by the IP header */
	__u32 l4; /* offset of the transport header in the skb */
	__u32 l4_header; /* its length in bytes; 0 if unknown */
	__be32 source;
	__be32 destination;
	__be16 source_port; /* 0 where there are none */
	__be16 destination_port;
	__u8 ttl;
	__u8 protocol;
	__u8 fragment; /* enum weft_fragment */
	__u8 icmp_type;
	__u8 tcp_flags;
};

#define WEFT_UNCOUNTED WEFT_MAX_REASONS /* an outcome: probes are not traffic */

WEFT_INLINE void weft_begin(struct __sk_buff *skb, struct weft_packet *packet, __u32 direction)
{
	__builtin_memset(packet, 0, sizeof(*packet));
	packet->direction = direction;
	packet->outcome = WEFT_FORWARDED;
	packet->bytes = skb->len - weft_l3_offset;
}

/* The compiler must not derive the pointer twice, or the verifier loses sight
 * of what the comparison proved. */
#define WEFT_ONCE(pointer) asm volatile("" : "+r"(pointer))

/* Returns `length` bytes at `offset`, linear and writable; NULL if the packet
 * is shorter. Pointers from earlier calls are void afterwards. Only for the
 * outer headers: offsets are below 128, which the verifier must see. */
WEFT_INLINE void *weft_at(struct __sk_buff *skb, __u64 offset, __u32 length)
{
	void *at, *end;

	asm volatile("%0 &= 127" : "+r"(offset));
	at = (void *)(long)skb->data + offset;
	end = (void *)(long)skb->data_end;
	WEFT_ONCE(at);
	if (at + length <= end)
		return at;
	if (bpf_skb_pull_data(skb, offset + length))
		return NULL;
	at = (void *)(long)skb->data + offset;
	end = (void *)(long)skb->data_end;
	WEFT_ONCE(at);
	return at + length <= end ? at : NULL;
}
