/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Internet checksums by difference (RFC 1624). A difference is a sum of 16-bit
 * words in the machine's byte order, not folded. */
#pragma once
#include <linux/types.h>
#include "packet.h"

WEFT_INLINE __u16 weft_fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return sum + (sum >> 16);
}

/* What replacing one word by another adds. */
WEFT_INLINE __u32 weft_difference16(__u16 from, __u16 to)
{
	return (__u32)(__u16)~from + to;
}

WEFT_INLINE __u32 weft_difference32(__u32 from, __u32 to)
{
	return weft_difference16(from, to) + weft_difference16(from >> 16, to >> 16);
}

WEFT_INLINE __u16 weft_update(__u16 checksum, __u32 difference)
{
	return ~weft_fold((__u16)~checksum + (__u32)weft_fold(difference));
}

#define WEFT_NO_CHECKSUM 0xffff

/* Offset in the transport header of a checksum that covers the addresses. ICMP
 * has no pseudo header, and neither has SCTP. */
WEFT_INLINE __u32 weft_checksum_offset(__u8 protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
		return 16;
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
	case IPPROTO_DCCP:
		return 6;
	}
	return WEFT_NO_CHECKSUM;
}

/* UDP: 0 means none and a computed 0 is written as 0xffff (RFC 768). UDP-Lite
 * knows no none, but writes 0xffff too (RFC 3828). */
WEFT_INLINE bool weft_zero_is_special(__u8 protocol)
{
	return protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE;
}
