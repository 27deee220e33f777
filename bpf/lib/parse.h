/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* From bytes to struct weft_packet: IPv4 and the transport headers whose
 * checksum covers the addresses. Changes nothing. */
#pragma once
#include <linux/tcp.h>
#include <linux/udp.h>
#include "packet.h"

#define WEFT_IP_OFFSET_MASK 0x1fff
#define WEFT_IP_MORE_FRAGMENTS 0x2000

#define WEFT_TCP_SYN 0x02

/* RFC 792. (linux/icmp.h needs the C library.) */
struct weft_icmp {
	__u8 type;
	__u8 code;
	__u16 checksum;
	__be32 rest;
};

enum weft_icmp_type {
	WEFT_ICMP_UNREACHABLE = 3,
	WEFT_ICMP_SOURCE_QUENCH = 4,
	WEFT_ICMP_TYPE_REDIRECT = 5,
	WEFT_ICMP_TIME_EXCEEDED = 11,
	WEFT_ICMP_PARAMETER_PROBLEM = 12,
};

/* A VLAN tag, in the frame or beside it. Even a priority tag would carry a
 * packet past what looks for IP. */
WEFT_INLINE bool weft_has_vlan(const struct __sk_buff *skb)
{
	return skb->vlan_present || skb->protocol == bpf_htons(ETH_P_8021Q) ||
	       skb->protocol == bpf_htons(ETH_P_8021AD);
}

/* Bytes that the transport header has at least; 0: nothing in it depends on
 * the addresses, or it is unknown. */
WEFT_INLINE __u32 weft_l4_minimum(__u8 protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
		return sizeof(struct tcphdr);
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
		return sizeof(struct udphdr);
	case IPPROTO_DCCP:
		return 12; /* RFC 4340, 5.1 */
	case IPPROTO_ICMP:
		return sizeof(struct weft_icmp);
	}
	return 0;
}

WEFT_INLINE int weft_l4_short(const struct weft_packet *packet)
{
	return packet->fragment == WEFT_FIRST_FRAGMENT ? -WEFT_FRAGMENT_TOO_SHORT : -WEFT_TRUNCATED;
}

WEFT_INLINE int weft_parse_tcp(struct __sk_buff *skb, struct weft_packet *packet, __u32 room)
{
	__u8 *tcp = weft_at(skb, packet->l4, sizeof(struct tcphdr));

	if (!tcp)
		return -WEFT_MALFORMED;
	packet->l4_header = (tcp[12] >> 4) * 4;
	packet->tcp_flags = tcp[13];
	if (packet->l4_header < sizeof(struct tcphdr) || packet->l4_header > room)
		return weft_l4_short(packet);
	return 0;
}

WEFT_INLINE int weft_parse_l4(struct __sk_buff *skb, struct weft_packet *packet)
{
	__u32 minimum = weft_l4_minimum(packet->protocol);
	__u32 room = packet->length - (packet->l4 - weft_l3_offset);
	__be16 *words;

	if (!minimum || packet->fragment == WEFT_LATER_FRAGMENT)
		return 0;
	if (room < minimum)
		return weft_l4_short(packet);
	packet->l4_header = minimum;

	words = weft_at(skb, packet->l4, 8);
	if (!words)
		return -WEFT_MALFORMED;
	if (packet->protocol == IPPROTO_ICMP) {
		packet->icmp_type = *(__u8 *)words;
		return 0;
	}
	packet->source_port = words[0];
	packet->destination_port = words[1];
	if (packet->protocol == IPPROTO_TCP)
		return weft_parse_tcp(skb, packet, room);
	return 0;
}

WEFT_INLINE int weft_parse4(struct __sk_buff *skb, struct weft_packet *packet)
{
	struct iphdr *ip = weft_at(skb, weft_l3_offset, sizeof(*ip));
	__u32 header;
	__u16 offset;

	if (!ip || ip->version != 4 || ip->ihl < 5)
		return -WEFT_MALFORMED;
	header = ip->ihl * 4;
	packet->length = bpf_ntohs(ip->tot_len);
	if (!packet->length && skb->gso_size) /* BIG TCP: longer than the field can say */
		packet->length = packet->bytes;
	if (packet->length < header || packet->length > packet->bytes)
		return -WEFT_MALFORMED;

	packet->l4 = weft_l3_offset + header;
	packet->source = ip->saddr;
	packet->destination = ip->daddr;
	packet->ttl = ip->ttl;
	packet->protocol = ip->protocol;
	offset = bpf_ntohs(ip->frag_off);
	if (offset & WEFT_IP_OFFSET_MASK)
		packet->fragment = WEFT_LATER_FRAGMENT;
	else if (offset & WEFT_IP_MORE_FRAGMENTS)
		packet->fragment = WEFT_FIRST_FRAGMENT;
	if (packet->protocol == IPPROTO_AH)
		return -WEFT_AUTHENTICATION_HEADER;
	return weft_parse_l4(skb, packet);
}
