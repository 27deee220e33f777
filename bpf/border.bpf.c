// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The border of a cluster, at the TC hooks of a lane: egress puts a packet
 * from the local view into wire form, ingress takes it out again. Transit is
 * ingress followed by egress. */
#include <linux/bpf.h>
#include "lib/address.h"
#include "lib/channel.h"
#include "lib/config.h"
#include "lib/hop.h"
#include "lib/icmp.h"
#include "lib/mark.h"
#include "lib/mss.h"
#include "lib/probe.h"
#include "lib/redirect.h"
#include "lib/remap.h"
#include "lib/verdict.h"

/* One packet's way over a link: how each of its two addresses is translated. */
struct weft_crossing {
	__u32 link;
	const struct weft_row4 *source_row;
	const struct weft_row4 *destination_row;
	__u8 source_cluster;
	__u8 destination_cluster;
	bool source_is_node; /* in a Node network, whose host 0 is for probes */
	bool destination_is_node;
	struct weft_change change;
};

/* Returns 0 for what is to be translated. */
WEFT_INLINE int weft_parse_lane(struct __sk_buff *skb, struct weft_packet *packet)
{
	int result;

	if (weft_has_vlan(skb))
		return -WEFT_VLAN;
	if (skb->protocol == bpf_htons(ETH_P_IPV6))
		return weft_channel(skb, packet);
	if (skb->protocol != bpf_htons(ETH_P_IP)) {
		packet->outcome = WEFT_NOT_IP;
		return WEFT_PASS;
	}
	result = weft_parse4(skb, packet);
	return result ? result : weft_check_addresses4(packet);
}

/* Host 0 of a Node network belongs to probes, and these use nothing else.
 * Returns 0, or WEFT_PASS for a probe, which is no traffic. */
WEFT_INLINE int weft_check_host0(struct weft_packet *packet, const struct weft_crossing *crossing)
{
	bool source = crossing->source_is_node && !(packet->source & ~crossing->source_row->mask);
	bool destination = crossing->destination_is_node && !(packet->destination & ~crossing->destination_row->mask);

	if (!source && !destination)
		return 0;
	if (!source || !destination || !weft_is_probe(packet))
		return -WEFT_PROBE_ADDRESS;
	packet->outcome = WEFT_UNCOUNTED;
	return WEFT_PASS;
}

/* --- egress: local view to wire form --- */

/* The network of the source. An error from a router that nobody exports leaves
 * with this node's fabric address. */
WEFT_INLINE bool weft_leaving_source(const struct weft_packet *packet, __be32 *source, struct weft_net *net)
{
	*source = packet->source;
	if (weft_view(packet->source, net))
		return true;
	if (!weft_fabric_address || !weft_is_icmp_error(packet))
		return false;
	*source = weft_fabric_address;
	return weft_view(weft_fabric_address, net);
}

WEFT_INLINE int weft_leave_by(struct weft_packet *packet, struct weft_crossing *crossing)
{
	struct weft_net source_net, destination_net;
	struct weft_change *change = &crossing->change;
	const struct weft_link *link;
	__be32 source;

	if (!weft_view(packet->destination, &destination_net))
		return -WEFT_NO_DESTINATION;
	if (destination_net.cluster == WEFT_SELF)
		return -WEFT_NOT_REMOTE;
	crossing->destination_cluster = destination_net.cluster;
	crossing->destination_is_node = destination_net.flags & WEFT_NET_NODE;
	crossing->link = weft_path(destination_net.cluster);
	if (!crossing->link)
		return -WEFT_NO_PATH;
	link = weft_link(crossing->link);
	if (!link)
		return -WEFT_NO_LINK;
	packet->link = crossing->link;
	crossing->destination_row = weft_row(crossing->link, WEFT_SIDE_OURS, destination_net.cluster,
					     destination_net.network);
	if (!crossing->destination_row)
		return -WEFT_NO_DESTINATION_ROW;

	if (!weft_leaving_source(packet, &source, &source_net))
		return -WEFT_NO_SOURCE;
	crossing->source_cluster = source_net.cluster;
	crossing->source_is_node = source_net.flags & WEFT_NET_NODE;
	if (source_net.cluster != WEFT_SELF) {
		if (!weft_may_transit(source_net.cluster, destination_net.cluster))
			return -WEFT_NO_TRANSIT;
		/* One hub at most: two that use each other would pass it to and fro. */
		if (link->cluster != destination_net.cluster)
			return -WEFT_NO_PATH;
	}
	crossing->source_row = weft_row(crossing->link, WEFT_SIDE_THEIRS, source_net.cluster, source_net.network);
	if (!crossing->source_row)
		return -WEFT_NO_SOURCE_ROW;

	change->destination = weft_to_wire(crossing->destination_row, packet->destination, &change->difference);
	change->source = weft_to_wire(crossing->source_row, source, &change->difference);
	if (source != packet->source)
		change->difference += weft_difference32(packet->source, source);
	return 0;
}

/* The quoted packet came the other way: its source is theirs to see by our
 * names, its destination is ours by their names. */
WEFT_INLINE int weft_leave_quoting(struct __sk_buff *skb, const struct weft_packet *packet, __u32 link,
				   struct weft_quote *quote)
{
	struct weft_change *change = &quote->change;
	const struct weft_row4 *row = NULL;
	struct weft_net net;
	int result = weft_parse_quote(skb, packet, quote);

	if (result)
		return result;
	if (weft_view(quote->ip.saddr, &net) && net.cluster != WEFT_SELF)
		row = weft_row(link, WEFT_SIDE_OURS, net.cluster, net.network);
	if (!row)
		return -WEFT_QUOTE_NO_SOURCE;
	change->source = weft_to_wire(row, quote->ip.saddr, &change->difference);

	row = NULL;
	if (weft_view(quote->ip.daddr, &net))
		row = weft_row(link, WEFT_SIDE_THEIRS, net.cluster, net.network);
	if (!row)
		return -WEFT_QUOTE_NO_DESTINATION;
	change->destination = weft_to_wire(row, quote->ip.daddr, &change->difference);
	return 0;
}

WEFT_INLINE int weft_leave(struct __sk_buff *skb, struct weft_packet *packet)
{
	__u32 mark = weft_mark_take(skb), mtu;
	struct weft_crossing crossing = {};
	struct weft_quote quote = {};
	bool error;
	int result;

	if (mark == WEFT_MARK_WIRE) {
		packet->outcome = WEFT_UNCOUNTED;
		return WEFT_PASS;
	}
	result = weft_parse_lane(skb, packet);
	if (result)
		return result;

	result = weft_leave_by(packet, &crossing);
	if (result)
		return result;
	result = weft_check_host0(packet, &crossing);
	if (result < 0)
		return result;
	mtu = weft_mtu(crossing.destination_cluster);
	if (!mtu)
		return -WEFT_NO_CLUSTER;
	error = weft_is_icmp_error(packet);
	if (error) {
		result = weft_leave_quoting(skb, packet, crossing.link, &quote);
		if (result)
			return result;
	}

	/* The stack has decremented what came from it. */
	crossing.change.hop = mark != WEFT_MARK_HOP;
	if (weft_ends_here(skb, packet, crossing.change.hop, mtu))
		return weft_to_overlay(skb, BPF_F_INGRESS);

	if (error) {
		result = weft_write_quote(skb, packet, &quote);
		if (result)
			return result;
	}
	result = weft_write4(skb, packet, &crossing.change);
	if (result)
		return result;
	return weft_clamp_mss4(skb, packet, mtu);
}

/* --- ingress: wire form to local view --- */

WEFT_INLINE int weft_enter_by(struct weft_packet *packet, const struct weft_link **link,
			      struct weft_crossing *crossing)
{
	struct weft_change *change = &crossing->change;
	struct weft_wire wire;
	struct weft_net net;

	if (!weft_wire(packet->source, &wire))
		return -WEFT_NO_SOURCE;
	*link = weft_link(wire.link);
	if (!*link)
		return -WEFT_NO_LINK;
	crossing->link = wire.link;
	packet->link = wire.link;
	crossing->source_cluster = wire.cluster;
	crossing->source_is_node = wire.flags & WEFT_NET_NODE;
	crossing->source_row = weft_row(wire.link, WEFT_SIDE_OURS, wire.cluster, wire.network);
	if (!crossing->source_row)
		return -WEFT_NO_SOURCE_ROW;

	if (!weft_theirs(crossing->link, (*link)->theirs_lengths, packet->destination, &net))
		return -WEFT_NO_DESTINATION;
	crossing->destination_cluster = net.cluster;
	crossing->destination_is_node = net.flags & WEFT_NET_NODE;
	crossing->destination_row = weft_row(crossing->link, WEFT_SIDE_THEIRS, net.cluster, net.network);
	if (!crossing->destination_row)
		return -WEFT_NO_DESTINATION_ROW;
	/* One hub at most, here as well: what a neighbor may send to others does not
	 * make it trusted with the names of those behind it. */
	if (net.cluster != WEFT_SELF &&
	    (crossing->source_cluster != (*link)->cluster || !weft_may_transit(crossing->source_cluster, net.cluster)))
		return -WEFT_NO_TRANSIT;

	change->source = weft_to_local(crossing->source_row, packet->source, &change->difference);
	change->destination = weft_to_local(crossing->destination_row, packet->destination, &change->difference);
	return 0;
}

WEFT_INLINE int weft_enter_quoting(struct __sk_buff *skb, const struct weft_packet *packet,
				   const struct weft_link *link, __u32 id, struct weft_quote *quote)
{
	struct weft_change *change = &quote->change;
	const struct weft_row4 *row = NULL;
	struct weft_wire wire;
	struct weft_net net;
	int result = weft_parse_quote(skb, packet, quote);

	if (result)
		return result;
	if (weft_theirs(id, link->theirs_lengths, quote->ip.saddr, &net))
		row = weft_row(id, WEFT_SIDE_THEIRS, net.cluster, net.network);
	if (!row)
		return -WEFT_QUOTE_NO_SOURCE;
	change->source = weft_to_local(row, quote->ip.saddr, &change->difference);

	/* A hub has no say about a cluster whose packets it may not bring. */
	row = NULL;
	if (weft_wire(quote->ip.daddr, &wire) && wire.link == id && weft_accepts(id, wire.cluster))
		row = weft_row(id, WEFT_SIDE_OURS, wire.cluster, wire.network);
	if (!row)
		return -WEFT_QUOTE_NO_DESTINATION;
	change->destination = weft_to_local(row, quote->ip.daddr, &change->difference);
	return 0;
}

/* Answers a request with the number of outer fragments seen from its sender,
 * over the lane that it came from. The prober's socket has had its copy of an
 * answer. */
WEFT_INLINE int weft_reflect_link_probe(struct __sk_buff *skb, struct weft_packet *packet,
					const struct weft_link *link)
{
	struct weft_probe request, answer;
	int result = weft_read_probe(skb, packet, &request);

	if (result)
		return result;
	if (request.type == WEFT_PROBE_ANSWER)
		return WEFT_END;
	if (request.type != WEFT_PROBE_REQUEST || packet->destination_port != bpf_htons(weft_probe_port))
		return -WEFT_PROBE_INVALID;
	answer = request;
	answer.type = WEFT_PROBE_ANSWER;
	answer.outer_fragments = bpf_htonl(link->outer_fragments);
	result = weft_answer_probe(skb, packet, &request, &answer);
	if (result)
		return result;
	weft_mark_set(skb, WEFT_MARK_WIRE);
	bpf_redirect(skb->ifindex, 0);
	return WEFT_REDIRECT;
}

enum weft_exit {
	WEFT_EXIT_STACK, /* a pod of this node, or the stack has to answer */
	WEFT_EXIT_OVERLAY, /* another node */
	WEFT_EXIT_LANE, /* transit over a link of this node */
};

/* Where a packet goes that has entered, or a negative reason. What leaves by a
 * lane has its TTL and size checked there. A gateway that does not reach the
 * next cluster by a link of its own to it relays once, to one that does. */
WEFT_INLINE int weft_find_exit(struct __sk_buff *skb, struct weft_packet *packet, struct weft_crossing *crossing,
			       const struct weft_link **onward)
{
	struct weft_place4 place;

	if (crossing->destination_cluster != WEFT_SELF) {
		*onward = weft_link(weft_path(crossing->destination_cluster));
		if (*onward && (*onward)->cluster == crossing->destination_cluster &&
		    weft_reaches(crossing->destination_cluster))
			return WEFT_EXIT_LANE;
	} else {
		if (!weft_place(crossing->change.destination, &place))
			return -WEFT_NO_PLACE;
		if (place.flags & WEFT_PLACE_LOCAL)
			return WEFT_EXIT_STACK;
	}
	if (weft_ends_here(skb, packet, true, weft_mtu(crossing->source_cluster)))
		return WEFT_EXIT_STACK;
	crossing->change.hop = true;
	return WEFT_EXIT_OVERLAY;
}

WEFT_INLINE int weft_enter(struct __sk_buff *skb, struct weft_packet *packet)
{
	const struct weft_link *link = NULL, *onward = NULL;
	struct weft_crossing crossing = {};
	struct weft_quote quote = {};
	int result, exit;
	bool error;

	result = weft_parse_lane(skb, packet);
	if (result)
		return result;

	result = weft_enter_by(packet, &link, &crossing);
	if (result)
		return result;
	result = weft_check_host0(packet, &crossing);
	if (result < 0)
		return result;
	if (result == WEFT_PASS) {
		if (crossing.destination_cluster == WEFT_SELF)
			return weft_reflect_link_probe(skb, packet, link);
	} else {
		/* A path is probed whether or not it may carry payload. */
		if (!weft_accepts(crossing.link, crossing.source_cluster))
			return -WEFT_NOT_ACCEPTED;
		if (crossing.destination_cluster != WEFT_SELF)
			packet->outcome = WEFT_TRANSIT;
	}
	error = weft_is_icmp_error(packet);
	if (error) {
		result = weft_enter_quoting(skb, packet, link, crossing.link, &quote);
		if (result)
			return result;
	}
	exit = weft_find_exit(skb, packet, &crossing, &onward);
	if (exit < 0)
		return exit;

	if (error) {
		result = weft_write_quote(skb, packet, &quote);
		if (result)
			return result;
	}
	result = weft_write4(skb, packet, &crossing.change);
	if (result)
		return result;
	if (exit == WEFT_EXIT_LANE && onward) /* not NULL: for the verifier */
		return weft_to_lane(onward);
	result = weft_clamp_mss4(skb, packet, weft_mtu(crossing.source_cluster));
	if (result)
		return result;
	return exit == WEFT_EXIT_OVERLAY ? weft_to_overlay(skb, 0) : WEFT_PASS;
}

SEC("tc")
int weft_border_egress(struct __sk_buff *skb)
{
	struct weft_packet packet;

	weft_begin(skb, &packet, WEFT_LANE_EGRESS);
	return weft_finish(&packet, weft_leave(skb, &packet));
}

SEC("tc")
int weft_border_ingress(struct __sk_buff *skb)
{
	struct weft_packet packet;

	weft_begin(skb, &packet, WEFT_LANE_INGRESS);
	return weft_finish(&packet, weft_enter(skb, &packet));
}

char _license[] SEC("license") = "Dual BSD/GPL";
