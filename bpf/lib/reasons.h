/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The one list of what can become of a packet. It makes the enum here and, by
 * dataplane/bpfgen/constants, the names and explanations in Go. Values index
 * counters: append only, at most WEFT_MAX_REASONS.
 *
 * Kinds: FORWARD went on as data; PASS is not ours and was left alone; STACK
 * was handed to the host's stack, which answers; DROP was dropped. */
#pragma once

#define WEFT_REASONS(X)                                                                              \
	X(FORWARDED, FORWARD, "sent on towards its destination")                                     \
	X(NOT_IP, PASS, "not IP: left alone")                                                        \
	X(CHANNEL, PASS, "peer channel: passed without translation")                                 \
	X(TTL_EXCEEDED, STACK, "time to live ended here: the host answers")                          \
	X(TOO_BIG, STACK, "larger than the path's MTU: the host answers or fragments")               \
	X(MALFORMED, DROP, "IP header is inconsistent with itself or with the packet")               \
	X(TRUNCATED, DROP, "transport header is incomplete")                                         \
	X(FRAGMENT_TOO_SHORT, DROP, "first fragment does not hold the transport header")             \
	X(IPV6, DROP, "IPv6 that is not the peer channel")                                           \
	X(AUTHENTICATION_HEADER, DROP, "IPsec AH signs the addresses and cannot be translated")      \
	X(UNSPECIFIED, DROP, "address in 0.0.0.0/8")                                                 \
	X(LOOPBACK, DROP, "address in 127.0.0.0/8")                                                  \
	X(LINK_LOCAL, DROP, "address in 169.254.0.0/16")                                             \
	X(MULTICAST, DROP, "address in 224.0.0.0/4")                                                 \
	X(BROADCAST, DROP, "address 255.255.255.255")                                                \
	X(NO_SOURCE, DROP, "source is in no network that the fabric knows")                          \
	X(NO_DESTINATION, DROP, "destination is in no network that the fabric knows")                \
	X(NOT_REMOTE, DROP, "destination is in a network of our own cluster")                        \
	X(NO_PATH, DROP, "no link leads to the destination cluster, or in transit none of our own")   \
	X(NO_LINK, DROP, "the chosen link does not exist on this gateway")                           \
	X(NO_CLUSTER, DROP, "the destination cluster has no MTU: not set up yet")                    \
	X(NO_SOURCE_ROW, DROP, "the neighbor has announced no wire prefix for the source's network") \
	X(NO_DESTINATION_ROW, DROP, "no wire prefix for the destination's network on this link")     \
	X(NOT_ACCEPTED, DROP, "traffic of this cluster may not enter from this link")                \
	X(NO_TRANSIT, DROP, "transit between these two clusters is not allowed")                     \
	X(NO_PLACE, DROP, "no pod or node of our cluster has the destination address")               \
	X(PROBE_ADDRESS, DROP, "host 0 of a Node network is for probes only")                        \
	X(PROBE_INVALID, DROP, "probe of an unknown version or type, or too short")                  \
	X(ICMP_REDIRECT, DROP, "ICMP redirect: has no meaning across clusters")                      \
	X(QUOTE_TRUNCATED, DROP, "ICMP error quotes less than it must")                              \
	X(QUOTE_OF_ERROR, DROP, "ICMP error about an ICMP error")                                    \
	X(QUOTE_NO_SOURCE, DROP, "ICMP error quotes a source that has no row on this link")          \
	X(QUOTE_NO_DESTINATION, DROP, "ICMP error quotes a destination that has no row on this link") \
	X(NO_GATEWAY, DROP, "no gateway of our cluster can reach the destination cluster")           \
	X(TUNNEL_UNKNOWN_NODE, DROP, "overlay packet from an address that is no node of ours")       \
	X(TUNNEL_WRONG_VNI, DROP, "overlay packet with a wrong network identifier")                  \
	X(TUNNEL_SOURCE, DROP, "overlay packet whose inner source does not belong to its node")      \
	X(NOT_GATEWAY, DROP, "overlay packet for a remote cluster, but this node has no link")       \
	X(WRITE_FAILED, DROP, "the kernel refused to change the packet (out of memory)")             \
	X(VLAN, DROP, "VLAN tag: the fabric has no VLANs")                                           \
	X(TRANSIT, FORWARD, "sent on towards another neighbor")

enum weft_reason {
#define WEFT_REASON_ENUM(name, kind, help) WEFT_##name,
	WEFT_REASONS(WEFT_REASON_ENUM)
#undef WEFT_REASON_ENUM
		WEFT_REASONS_END
};
