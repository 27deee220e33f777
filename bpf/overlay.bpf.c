// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The overlay, at the TC hooks of the cluster's own VXLAN device: egress finds
 * the node or the gateway that comes next, ingress guards and delivers. All in
 * local view: nothing is translated here. */
#include <linux/bpf.h>
#include <linux/in6.h>
#include "lib/address.h"
#include "lib/config.h"
#include "lib/flow.h"
#include "lib/mark.h"
#include "lib/probe.h"
#include "lib/redirect.h"
#include "lib/tunnel.h"
#include "lib/verdict.h"

#define WEFT_NEIGHBOR_DISCOVERY_FIRST 133 /* ICMPv6 types, RFC 4861 */
#define WEFT_NEIGHBOR_DISCOVERY_LAST 137

/* IPv6 networks are not carried yet; neighbor discovery is left alone like ARP. */
WEFT_INLINE int weft_other_protocol(struct __sk_buff *skb, struct weft_packet *packet)
{
	struct {
		__u8 ip[6];
		__u8 next_header;
		__u8 rest[33];
		__u8 icmp_type;
	} headers;

	if (weft_has_vlan(skb))
		return -WEFT_VLAN;
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (bpf_skb_load_bytes(skb, weft_l3_offset, &headers, sizeof(headers)) ||
		    headers.next_header != IPPROTO_ICMPV6 || headers.icmp_type < WEFT_NEIGHBOR_DISCOVERY_FIRST ||
		    headers.icmp_type > WEFT_NEIGHBOR_DISCOVERY_LAST)
			return -WEFT_IPV6;
	}
	packet->outcome = WEFT_NOT_IP;
	return WEFT_PASS;
}

WEFT_INLINE int weft_parse_overlay(struct __sk_buff *skb, struct weft_packet *packet)
{
	int result;

	if (skb->protocol != bpf_htons(ETH_P_IP) || skb->vlan_present)
		return weft_other_protocol(skb, packet);
	result = weft_parse4(skb, packet);
	return result ? result : weft_check_addresses4(packet);
}

/* Only nodes of our own cluster probe each other: what a node can reach is
 * nobody else's business, and a peer's datagram to or from that port is data. */
WEFT_INLINE bool weft_between_nodes(const struct weft_packet *packet, const struct weft_place4 *destination)
{
	struct weft_place4 source;

	return destination->flags & WEFT_PLACE_FABRIC && weft_is_probe(packet) &&
	       weft_place(packet->source, &source) && source.flags & WEFT_PLACE_FABRIC;
}

/* A probe of one neighbor to another, on its way between two gateways of ours:
 * between hosts 0 of their Node networks. */
WEFT_INLINE bool weft_is_lane_probe(const struct weft_packet *packet, const struct weft_net *destination)
{
	struct weft_net source;

	return weft_is_probe(packet) && weft_is_host0(packet->destination, destination) &&
	       weft_view(packet->source, &source) && weft_is_host0(packet->source, &source);
}

/* The lane of the link to a remote cluster. */
WEFT_INLINE int weft_out_by_lane(__u32 cluster, int otherwise)
{
	const struct weft_link *link = weft_link(weft_path(cluster));

	return link ? weft_to_lane(link) : -otherwise;
}

/* --- egress: to the node or gateway that comes next --- */

WEFT_INLINE int weft_send(struct __sk_buff *skb, struct weft_packet *packet)
{
	int result = weft_parse_overlay(skb, packet);
	const struct weft_gateway4 *gateway;
	struct weft_place4 place;
	struct weft_net net;

	if (result)
		return result;
	if (!weft_view(packet->destination, &net))
		return -WEFT_NO_DESTINATION;
	if (net.cluster == WEFT_SELF) {
		if (!weft_place(packet->destination, &place))
			return -WEFT_NO_PLACE;
		if (weft_between_nodes(packet, &place))
			packet->outcome = WEFT_UNCOUNTED;
		if (place.flags & WEFT_PLACE_LOCAL)
			return weft_to_overlay(skb, BPF_F_INGRESS);
		return weft_encapsulate(skb, place.underlay);
	}

	if (weft_is_lane_probe(packet, &net))
		packet->outcome = WEFT_UNCOUNTED;
	gateway = weft_pick_gateway(packet, net.cluster);
	if (!gateway)
		return -WEFT_NO_GATEWAY;
	if (!(gateway->flags & WEFT_PLACE_LOCAL))
		return weft_encapsulate(skb, gateway->underlay);
	/* The stack that sent it, or the lane that it came from, has decremented
	 * the TTL. */
	weft_mark_set(skb, WEFT_MARK_HOP);
	return weft_out_by_lane(net.cluster, WEFT_NO_PATH);
}

/* --- ingress: guard and deliver --- */

/* Answers a request with what this node can reach; an answer ends here, the
 * prober's socket has had its copy. */
WEFT_INLINE int weft_reflect_node_probe(struct __sk_buff *skb, struct weft_packet *packet)
{
	struct weft_probe request, answer;
	struct weft_reach *reach;
	__u32 zero = 0;
	int result = weft_read_probe(skb, packet, &request);

	if (result)
		return result;
	packet->outcome = WEFT_UNCOUNTED;
	if (request.type == WEFT_PROBE_ANSWER)
		return WEFT_END;
	if (request.type != WEFT_PROBE_REQUEST || packet->destination_port != bpf_htons(weft_probe_port))
		return -WEFT_PROBE_INVALID;
	answer = request;
	answer.type = WEFT_PROBE_ANSWER;
	reach = bpf_map_lookup_elem(&weft_reach, &zero);
	if (reach)
		answer.reach = *reach;
	result = weft_answer_probe(skb, packet, &request, &answer);
	if (result)
		return result;
	return weft_to_overlay(skb, 0);
}

WEFT_INLINE int weft_to_host(struct __sk_buff *skb)
{
	bpf_skb_change_type(skb, 0 /* PACKET_HOST */);
	return WEFT_PASS;
}

WEFT_INLINE int weft_deliver(struct __sk_buff *skb, struct weft_packet *packet)
{
	struct weft_place4 place;
	struct weft_net net;

	if (!weft_view(packet->destination, &net))
		return -WEFT_NO_DESTINATION;
	if (net.cluster != WEFT_SELF) {
		if (weft_is_lane_probe(packet, &net))
			packet->outcome = WEFT_UNCOUNTED;
		return weft_out_by_lane(net.cluster, WEFT_NOT_GATEWAY);
	}
	if (!weft_place(packet->destination, &place) || !(place.flags & WEFT_PLACE_LOCAL))
		return -WEFT_NO_PLACE;
	if (packet->destination == weft_fabric_address && weft_between_nodes(packet, &place))
		return weft_reflect_node_probe(skb, packet);
	return weft_to_host(skb);
}

WEFT_INLINE int weft_receive(struct __sk_buff *skb, struct weft_packet *packet)
{
	struct weft_sender sender = {};
	int result = weft_check_outer(skb, &sender);

	if (result)
		return result;
	if (!sender.tunneled)
		return weft_to_host(skb);
	result = weft_parse_overlay(skb, packet);
	if (result)
		return result;
	result = weft_check_inner4(packet, &sender);
	if (result)
		return result;
	return weft_deliver(skb, packet);
}

SEC("tc")
int weft_overlay_egress(struct __sk_buff *skb)
{
	struct weft_packet packet;

	weft_begin(skb, &packet, WEFT_OVERLAY_EGRESS);
	return weft_finish(&packet, weft_send(skb, &packet));
}

SEC("tc")
int weft_overlay_ingress(struct __sk_buff *skb)
{
	struct weft_packet packet;

	weft_begin(skb, &packet, WEFT_OVERLAY_INGRESS);
	return weft_finish(&packet, weft_receive(skb, &packet));
}

char _license[] SEC("license") = "Dual BSD/GPL";
