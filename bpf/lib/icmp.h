/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ICMP errors quote the packet that they are about (RFC 792, RFC 5508): its
 * addresses are translated too, in the other direction, with its checksums as
 * far as they are quoted, and the outer checksum follows. */
#pragma once
#include "remap.h"

#define WEFT_QUOTE_MINIMUM 8 /* bytes of the quoted transport header, RFC 792 */

/* The quoted packet. */
struct weft_quote {
	__u32 offset; /* of its IP header in the skb */
	__u32 l4; /* of its transport header in the skb */
	__u32 room; /* bytes of it that are quoted beyond the IP header */
	__u8 protocol;
	bool has_l4;
	struct iphdr ip;
	struct weft_change change;
};

WEFT_INLINE bool weft_icmp_error_type(__u8 type)
{
	switch (type) {
	case WEFT_ICMP_UNREACHABLE:
	case WEFT_ICMP_SOURCE_QUENCH:
	case WEFT_ICMP_TYPE_REDIRECT:
	case WEFT_ICMP_TIME_EXCEEDED:
	case WEFT_ICMP_PARAMETER_PROBLEM:
		return true;
	}
	return false;
}

WEFT_INLINE bool weft_is_icmp_error(const struct weft_packet *packet)
{
	return packet->protocol == IPPROTO_ICMP && packet->fragment != WEFT_LATER_FRAGMENT &&
	       weft_icmp_error_type(packet->icmp_type);
}

/* Reads the quoted headers; changes nothing. */
WEFT_FUNCTION int weft_parse_quote(struct __sk_buff *skb, const struct weft_packet *packet,
				       struct weft_quote *quote)
{
	__u32 end = weft_l3_offset + packet->length;
	__u8 type;

	if (packet->icmp_type == WEFT_ICMP_TYPE_REDIRECT)
		return -WEFT_ICMP_REDIRECT;
	quote->offset = packet->l4 + sizeof(struct weft_icmp);
	if (quote->offset + sizeof(quote->ip) > end ||
	    bpf_skb_load_bytes(skb, quote->offset, &quote->ip, sizeof(quote->ip)))
		return -WEFT_QUOTE_TRUNCATED;
	quote->l4 = quote->offset + quote->ip.ihl * 4;
	if (quote->ip.version != 4 || quote->ip.ihl < 5 || quote->l4 > end)
		return -WEFT_QUOTE_TRUNCATED;
	quote->room = end - quote->l4;
	quote->protocol = quote->ip.protocol;
	quote->has_l4 = !(quote->ip.frag_off & bpf_htons(WEFT_IP_OFFSET_MASK)) &&
			weft_l4_minimum(quote->protocol);
	if (!quote->has_l4)
		return 0;
	if (quote->room < WEFT_QUOTE_MINIMUM)
		return -WEFT_QUOTE_TRUNCATED;
	if (quote->protocol != IPPROTO_ICMP)
		return 0;
	if (bpf_skb_load_bytes(skb, quote->l4, &type, sizeof(type)))
		return -WEFT_QUOTE_TRUNCATED;
	return weft_icmp_error_type(type) ? -WEFT_QUOTE_OF_ERROR : 0;
}

/* Writes the quoted transport checksum, if it is quoted. Returns what that adds
 * to the outer sum, or a negative reason. */
WEFT_INLINE int weft_write_quoted_checksum(struct __sk_buff *skb, const struct weft_quote *quote)
{
	__u32 offset = weft_checksum_offset(quote->protocol);
	__u16 from, to;

	if (!quote->has_l4 || offset == WEFT_NO_CHECKSUM || offset + sizeof(from) > quote->room)
		return 0;
	if (bpf_skb_load_bytes(skb, quote->l4 + offset, &from, sizeof(from)))
		return -WEFT_WRITE_FAILED;
	if (!from && weft_zero_is_special(quote->protocol))
		return 0;
	to = weft_update(from, quote->change.difference);
	if (!to && weft_zero_is_special(quote->protocol))
		to = 0xffff;
	if (bpf_skb_store_bytes(skb, quote->l4 + offset, &to, sizeof(to), 0))
		return -WEFT_WRITE_FAILED;
	return weft_difference16(from, to);
}

/* Writes quote->change into the quoted packet. */
WEFT_FUNCTION int weft_write_quote(struct __sk_buff *skb, const struct weft_packet *packet,
				       struct weft_quote *quote)
{
	struct iphdr *ip = &quote->ip;
	__u16 check = ip->check;
	__u32 difference;
	int result;

	if (quote->change.difference)
		ip->check = weft_update(check, quote->change.difference);
	difference = weft_difference16(check, ip->check) + weft_difference32(ip->saddr, quote->change.source) +
		     weft_difference32(ip->daddr, quote->change.destination);
	ip->saddr = quote->change.source;
	ip->daddr = quote->change.destination;
	if (bpf_skb_store_bytes(skb, quote->offset, ip, sizeof(*ip), 0))
		return -WEFT_WRITE_FAILED;

	result = weft_write_quoted_checksum(skb, quote);
	if (result < 0)
		return result;
	difference += result;
	if (bpf_l4_csum_replace(skb, packet->l4 + offsetof(struct weft_icmp, checksum), 0, weft_fold(difference), 0))
		return -WEFT_WRITE_FAILED;
	return 0;
}
