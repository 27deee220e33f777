/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Probes: recognised by address and port, reflected without any process, never
 * counted as traffic. */
#pragma once
#include "csum.h"
#include "parse.h"
#include "verdict.h"

#define WEFT_PROBE_TTL 64

/* A request has the probe port as destination; its answer as source. */
WEFT_INLINE bool weft_is_probe(const struct weft_packet *packet)
{
	__be16 port = bpf_htons(weft_probe_port);

	return packet->protocol == IPPROTO_UDP && packet->fragment == WEFT_WHOLE &&
	       (packet->destination_port == port || packet->source_port == port);
}

/* Reads the probe of a packet that weft_is_probe. */
WEFT_INLINE int weft_read_probe(struct __sk_buff *skb, const struct weft_packet *packet, struct weft_probe *probe)
{
	__u32 payload = packet->l4 + sizeof(struct udphdr);

	if (payload + sizeof(*probe) > weft_l3_offset + packet->length ||
	    bpf_skb_load_bytes(skb, payload, probe, sizeof(*probe)))
		return -WEFT_PROBE_INVALID;
	if (probe->version != WEFT_PROBE_VERSION)
		return -WEFT_PROBE_INVALID;
	return 0;
}

/* Swaps the addresses, which leaves every checksum as it is, and gives the
 * answer a TTL of its own. */
WEFT_INLINE int weft_turn_around4(struct __sk_buff *skb, const struct weft_packet *packet)
{
	struct iphdr *ip = weft_at(skb, weft_l3_offset, sizeof(*ip));
	__be16 *ports;

	if (!ip)
		return -WEFT_WRITE_FAILED;
	ip->saddr = packet->destination;
	ip->daddr = packet->source;
	ip->check = weft_update(ip->check, weft_difference16(bpf_htons(ip->ttl << 8), bpf_htons(WEFT_PROBE_TTL << 8)));
	ip->ttl = WEFT_PROBE_TTL;

	ports = weft_at(skb, packet->l4, sizeof(struct udphdr));
	if (!ports)
		return -WEFT_WRITE_FAILED;
	ports[0] = packet->destination_port;
	ports[1] = packet->source_port;
	return 0;
}

/* Turns the packet into its answer. Without a UDP checksum, a complete
 * checksum of the whole buffer has to follow the payload by itself. */
WEFT_FUNCTION int weft_answer_probe(struct __sk_buff *skb, const struct weft_packet *packet,
				    struct weft_probe *request, struct weft_probe *answer)
{
	__u32 difference = bpf_csum_diff((void *)request, sizeof(*request), (void *)answer, sizeof(*answer), 0);
	__u32 checksum = packet->l4 + offsetof(struct udphdr, check);
	__u16 before;

	if (bpf_skb_load_bytes(skb, checksum, &before, sizeof(before)) ||
	    bpf_skb_store_bytes(skb, packet->l4 + sizeof(struct udphdr), answer, sizeof(*answer),
				before ? 0 : BPF_F_RECOMPUTE_CSUM) ||
	    bpf_l4_csum_replace(skb, checksum, 0, difference, BPF_F_MARK_MANGLED_0))
		return -WEFT_WRITE_FAILED;
	return weft_turn_around4(skb, packet);
}
