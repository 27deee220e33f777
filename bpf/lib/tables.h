/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Look-ups: who owns an address, and the row that translates it. The first
 * level of the IPv4 tables is an array over the upper 16 bits, the second a
 * hash per prefix length, longest first. */
#pragma once
#include "maps.h"
#include "packet.h"

WEFT_INLINE __be32 weft_mask4(__u32 prefix_len)
{
	return prefix_len ? bpf_htonl(0xffffffffU << (32 - prefix_len)) : 0;
}

/* Takes the longest prefix length (1 to 32) out of a set that is not empty. */
WEFT_INLINE __u32 weft_take_longest(__u32 *lengths)
{
	__u32 rest = *lengths, bit = 0;

	if (rest >> 16) {
		rest >>= 16;
		bit += 16;
	}
	if (rest >> 8) {
		rest >>= 8;
		bit += 8;
	}
	if (rest >> 4) {
		rest >>= 4;
		bit += 4;
	}
	if (rest >> 2) {
		rest >>= 2;
		bit += 2;
	}
	bit += rest >> 1;
	*lengths &= ~(1U << (bit & 31));
	return bit + 1;
}

/* Small map values travel as numbers, see WEFT_GLOBAL; 0: none. */
union weft_net_word {
	struct weft_net net;
	__u32 word;
};
union weft_wire_word {
	struct weft_wire wire;
	__u64 word;
};
union weft_place_word {
	struct weft_place4 place;
	__u64 word;
};

/* Searches a hash keyed by weft_prefix4, longest prefix first. */
WEFT_INLINE void *weft_longest4(void *map, __u32 lengths, __be32 address)
{
	struct weft_prefix4 key = {};
	void *value;
	int i;

	for (i = 0; i < 32; i++) {
		if (!lengths)
			break;
		key.prefix_len = weft_take_longest(&lengths);
		key.prefix = address & weft_mask4(key.prefix_len);
		value = bpf_map_lookup_elem(map, &key);
		if (value)
			return value;
	}
	return NULL;
}

WEFT_INLINE const struct weft_lengths *weft_prefix_lengths(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&weft_lengths, &zero);
}

WEFT_GLOBAL __u32 weft_view_long4(__be32 address)
{
	const struct weft_lengths *lengths = weft_prefix_lengths();
	__u32 *word = lengths ? weft_longest4(&weft_view4_long, lengths->view4, address) : NULL;

	return word ? *word : 0;
}

WEFT_GLOBAL __u64 weft_wire_long4(__be32 address)
{
	const struct weft_lengths *lengths = weft_prefix_lengths();
	__u64 *word = lengths ? weft_longest4(&weft_wire4_long, lengths->wire4, address) : NULL;

	return word ? *word : 0;
}

WEFT_GLOBAL __u64 weft_place_word4(__be32 address)
{
	const struct weft_lengths *lengths = weft_prefix_lengths();
	__u64 *word = lengths ? weft_longest4(&weft_places4, lengths->places4, address) : NULL;

	return word ? *word : 0;
}

WEFT_GLOBAL __u32 weft_theirs_word4(__u32 link, __u32 lengths, __be32 address)
{
	struct weft_theirs_key key = { .link = link };
	__u32 *word;
	int i;

	for (i = 0; i < 32; i++) {
		if (!lengths)
			break;
		key.prefix_len = weft_take_longest(&lengths);
		key.prefix = address & weft_mask4(key.prefix_len);
		word = bpf_map_lookup_elem(&weft_theirs4, &key);
		if (word)
			return *word;
	}
	return 0;
}

/* The network of a local address: ours, or seen in local view. False if there
 * is none. */
WEFT_INLINE bool weft_view(__be32 address, struct weft_net *net)
{
	__u32 index = bpf_ntohl(address) >> 16;
	__u32 *first = bpf_map_lookup_elem(&weft_view4, &index);
	union weft_net_word found = { .word = first ? *first : 0 }, longer;

	if (found.net.flags & WEFT_NET_LONGER) {
		longer.word = weft_view_long4(address);
		if (longer.word)
			found = longer;
	}
	*net = found.net;
	return found.net.flags & WEFT_NET_VALID;
}

/* Host 0 of a Node network, which belongs to probes. */
WEFT_INLINE bool weft_is_host0(__be32 address, const struct weft_net *net)
{
	return net->flags & WEFT_NET_NODE && !(address & ~weft_mask4(net->prefix_len));
}

/* The network that a wire source belongs to. Returns false if there is none. */
WEFT_INLINE bool weft_wire(__be32 address, struct weft_wire *wire)
{
	__u32 index = bpf_ntohl(address) >> 16;
	__u64 *first = bpf_map_lookup_elem(&weft_wire4, &index);
	union weft_wire_word found = { .word = first ? *first : 0 }, longer;

	if (found.wire.flags & WEFT_NET_LONGER) {
		longer.word = weft_wire_long4(address);
		if (longer.word)
			found = longer;
	}
	*wire = found.wire;
	return found.wire.flags & WEFT_NET_VALID;
}

/* The network that a link's neighbor calls by this address. Returns false if
 * there is none. */
WEFT_INLINE bool weft_theirs(__u32 link, __u32 lengths, __be32 address, struct weft_net *net)
{
	union weft_net_word found = { .word = weft_theirs_word4(link, lengths, address) };

	*net = found.net;
	return found.net.flags & WEFT_NET_VALID;
}

/* Where one of our own pods or nodes is. Returns false if it is nowhere. */
WEFT_INLINE bool weft_place(__be32 address, struct weft_place4 *place)
{
	union weft_place_word found = { .word = weft_place_word4(address) };

	*place = found.place;
	return found.place.underlay;
}

WEFT_INLINE const struct weft_row4 *weft_row(__u32 link, __u8 side, __u8 cluster, __u8 network)
{
	struct weft_row_key key = { .link = link, .side = side, .cluster = cluster, .network = network };

	return bpf_map_lookup_elem(&weft_rows4, &key);
}

WEFT_INLINE const struct weft_link *weft_link(__u32 link)
{
	const struct weft_link *found = bpf_map_lookup_elem(&weft_links, &link);

	return found && found->flags & WEFT_LINK_VALID ? found : NULL;
}

/* The link that this gateway sends a cluster's packets over; 0: none. */
WEFT_INLINE __u32 weft_path(__u32 cluster)
{
	__u32 *link = bpf_map_lookup_elem(&weft_paths, &cluster);

	return link ? *link : 0;
}

/* Whether a path of this gateway to a cluster is up. */
WEFT_INLINE bool weft_reaches(__u8 cluster)
{
	__u32 zero = 0;
	const struct weft_reach *reach = bpf_map_lookup_elem(&weft_reach, &zero);

	return reach && reach->bits[cluster / 64] >> (cluster % 64) & 1;
}

/* Bytes at L3 that every path to a cluster carries; 0: unknown cluster. */
WEFT_INLINE __u32 weft_mtu(__u32 cluster)
{
	struct weft_cluster *found = bpf_map_lookup_elem(&weft_clusters, &cluster);

	return found ? found->mtu : 0;
}

WEFT_INLINE bool weft_accepts(__u32 link, __u8 cluster)
{
	struct weft_accept_key key = { .link = link, .cluster = cluster };
	__u32 *accept = bpf_map_lookup_elem(&weft_accept, &key);

	return accept && *accept;
}

WEFT_INLINE bool weft_may_transit(__u8 from, __u8 to)
{
	__u32 index = from * WEFT_MAX_CLUSTERS + to;
	__u32 *allowed = bpf_map_lookup_elem(&weft_transit, &index);

	return allowed && *allowed;
}
