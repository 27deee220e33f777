/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Clamp of the TCP maximum segment size (RFC 9293, 3.7.1) on SYN and SYN-ACK,
 * only ever downward. Options that are malformed are left alone. */
#pragma once
#include "parse.h"
#include "verdict.h"

#define WEFT_TCP_OPTION_END 0
#define WEFT_TCP_OPTION_NOP 1
#define WEFT_TCP_OPTION_MSS 2
#define WEFT_TCP_OPTION_MSS_LENGTH 4
#define WEFT_TCP_OPTIONS_MAX 40
#define WEFT_TCP4_HEADERS 40 /* bytes of IPv4 and TCP without options */

/* Returns the offset of the option's value in the skb; 0: there is none. */
WEFT_GLOBAL __u32 weft_find_mss(struct __sk_buff *skb, __u32 offset, __u32 end)
{
	__u8 option[2];
	int i;

	for (i = 0; i < WEFT_TCP_OPTIONS_MAX; i++) {
		if (offset + 2 > end || bpf_skb_load_bytes(skb, offset, option, sizeof(option)))
			return 0;
		if (option[0] == WEFT_TCP_OPTION_END)
			return 0;
		if (option[0] == WEFT_TCP_OPTION_NOP) {
			offset++;
			continue;
		}
		if (option[0] == WEFT_TCP_OPTION_MSS)
			return option[1] == WEFT_TCP_OPTION_MSS_LENGTH && offset + 4 <= end ? offset + 2 : 0;
		if (option[1] < 2)
			return 0;
		offset += option[1];
	}
	return 0;
}

WEFT_INLINE int weft_clamp_mss4(struct __sk_buff *skb, const struct weft_packet *packet, __u32 mtu)
{
	__u32 offset;
	__be16 from, to;

	if (packet->protocol != IPPROTO_TCP || packet->fragment == WEFT_LATER_FRAGMENT ||
	    !(packet->tcp_flags & WEFT_TCP_SYN) || mtu <= WEFT_TCP4_HEADERS)
		return 0;
	offset = weft_find_mss(skb, packet->l4 + sizeof(struct tcphdr), packet->l4 + packet->l4_header);
	if (!offset || bpf_skb_load_bytes(skb, offset, &from, sizeof(from)))
		return 0;
	if (bpf_ntohs(from) <= mtu - WEFT_TCP4_HEADERS)
		return 0;
	to = bpf_htons(mtu - WEFT_TCP4_HEADERS);
	if (bpf_skb_store_bytes(skb, offset, &to, sizeof(to), 0))
		return -WEFT_WRITE_FAILED;
	if ((offset - packet->l4) & 1) { /* across two words of the sum */
		from = __builtin_bswap16(from);
		to = __builtin_bswap16(to);
	}
	if (bpf_l4_csum_replace(skb, packet->l4 + offsetof(struct tcphdr, check), from, to, sizeof(to)))
		return -WEFT_WRITE_FAILED;
	return 0;
}
