/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which of several gateways a flow takes. */
#pragma once
#include "packet.h"
#include "tables.h"

/* The finalizer of MurmurHash3 mixes all bits. */
WEFT_INLINE __u32 weft_mix(__u32 hash, __u32 word)
{
	hash ^= word;
	hash ^= hash >> 16;
	hash *= 0x85ebca6b;
	hash ^= hash >> 13;
	hash *= 0xc2b2ae35;
	hash ^= hash >> 16;
	return hash;
}

/* Fragments have no ports in common, so that only addresses count for them. */
WEFT_INLINE __u32 weft_flow_hash4(const struct weft_packet *packet)
{
	__u32 hash = weft_mix(weft_mix(0, packet->source), packet->destination);

	if (packet->fragment == WEFT_WHOLE)
		hash = weft_mix(hash, (__u32)packet->source_port << 16 | packet->destination_port);
	return hash;
}

/* The gateway of our own cluster that this flow to a remote cluster takes;
 * NULL: there is none. */
WEFT_INLINE const struct weft_gateway4 *weft_pick_gateway(const struct weft_packet *packet, __u32 cluster)
{
	__u64 *choices = bpf_map_lookup_elem(&weft_choices, &cluster);
	const struct weft_gateway4 *gateway;
	__u32 number, id;
	__u64 word;

	if (!choices)
		return NULL;
	word = *(volatile __u64 *)choices; /* may be flipped at any time: read it once */
	number = word & 7;
	if (!number)
		return NULL;
	id = word >> (8 * (weft_flow_hash4(packet) % number + 1)) & 0xff;
	gateway = bpf_map_lookup_elem(&weft_gateways4, &id);
	return gateway && gateway->underlay ? gateway : NULL;
}
