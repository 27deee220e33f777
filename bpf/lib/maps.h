/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Every map, what its key means, and who writes it. All are written by the
 * agent alone, except weft_counters. Their pins live under a directory that
 * carries WEFT_ABI, so that an incompatible change runs beside the old one. */
#pragma once
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "abi.h"

#define WEFT_MAP(map_name, map_type, key_type, value_type, entries, flags)     \
	struct {                                                               \
		__uint(type, map_type);                                        \
		__type(key, key_type);                                         \
		__type(value, value_type);                                     \
		__uint(max_entries, entries);                                  \
		__uint(map_flags, flags);                                       \
		__uint(pinning, LIBBPF_PIN_BY_NAME);                           \
	} map_name SEC(".maps")

/* Local view, first level: index is the upper 16 bits of the address (host
 * order). Names our own networks (cluster WEFT_SELF) and every local view. */
WEFT_MAP(weft_view4, BPF_MAP_TYPE_ARRAY, __u32, struct weft_net, 65536, 0);
/* Local view, second level: prefixes longer than 16 bits. */
WEFT_MAP(weft_view4_long, BPF_MAP_TYPE_HASH, struct weft_prefix4, struct weft_net, 4096, BPF_F_NO_PREALLOC);
/* Wire prefixes of sources at ingress; the same two levels. */
WEFT_MAP(weft_wire4, BPF_MAP_TYPE_ARRAY, __u32, struct weft_wire, 65536, 0);
WEFT_MAP(weft_wire4_long, BPF_MAP_TYPE_HASH, struct weft_prefix4, struct weft_wire, 16384, BPF_F_NO_PREALLOC);
/* Wire prefixes of destinations at ingress, per link. */
WEFT_MAP(weft_theirs4, BPF_MAP_TYPE_HASH, struct weft_theirs_key, struct weft_net, 16384, BPF_F_NO_PREALLOC);
/* The bijections themselves. */
WEFT_MAP(weft_rows4, BPF_MAP_TYPE_HASH, struct weft_row_key, struct weft_row4, 32768, BPF_F_NO_PREALLOC);
/* Index: link. */
WEFT_MAP(weft_links, BPF_MAP_TYPE_ARRAY, __u32, struct weft_link, WEFT_MAX_LINKS, 0);
/* (link, cluster) -> 1: packets of that cluster may enter from that link. One
 * aligned word, flipped while packets flow. */
WEFT_MAP(weft_accept, BPF_MAP_TYPE_HASH, struct weft_accept_key, __u32, 16384, BPF_F_NO_PREALLOC);
/* Index: from * 256 + to (cluster indexes): 1 if we forward between the two. */
WEFT_MAP(weft_transit, BPF_MAP_TYPE_ARRAY, __u32, __u32, WEFT_MAX_CLUSTERS * WEFT_MAX_CLUSTERS, 0);
/* Index: destination cluster -> link that this gateway sends it over, 0: none.
 * One aligned word, flipped while packets flow. */
WEFT_MAP(weft_paths, BPF_MAP_TYPE_ARRAY, __u32, __u32, WEFT_MAX_CLUSTERS, 0);
/* Index: destination cluster -> the gateways that can reach it, in one aligned
 * word: the lowest byte is their number (0 to 7), the others gateway ids. */
WEFT_MAP(weft_choices, BPF_MAP_TYPE_ARRAY, __u32, __u64, WEFT_MAX_CLUSTERS, 0);
/* Index: gateway id of our own cluster. */
WEFT_MAP(weft_gateways4, BPF_MAP_TYPE_ARRAY, __u32, struct weft_gateway4, 256, 0);
/* Index: cluster. */
WEFT_MAP(weft_clusters, BPF_MAP_TYPE_ARRAY, __u32, struct weft_cluster, WEFT_MAX_CLUSTERS, 0);
/* Our own pods and fabric addresses: prefix -> where it is. */
WEFT_MAP(weft_places4, BPF_MAP_TYPE_HASH, struct weft_prefix4, struct weft_place4, 131072, BPF_F_NO_PREALLOC);
/* Underlay addresses of the nodes of our own cluster; value: WEFT_NODE_*. */
WEFT_MAP(weft_nodes4, BPF_MAP_TYPE_HASH, __be32, __u32, 8192, BPF_F_NO_PREALLOC);
/* Index 0: which prefix lengths exist in the hash tables; bit n-1 is length n. */
struct weft_lengths {
	__u32 view4;
	__u32 wire4;
	__u32 places4;
	__u32 reserved;
};
WEFT_MAP(weft_lengths, BPF_MAP_TYPE_ARRAY, __u32, struct weft_lengths, 1, 0);
/* Index 0: what this gateway can reach, copied into answers to node probes;
 * transit to anything else is left to another gateway. */
WEFT_MAP(weft_reach, BPF_MAP_TYPE_ARRAY, __u32, struct weft_reach, 1, 0);
/* Packets and bytes by (link, direction, reason), see abi.h. */
WEFT_MAP(weft_counters, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct weft_counter,
	 WEFT_MAX_LINKS * WEFT_DIRECTIONS * WEFT_MAX_REASONS, 0);
