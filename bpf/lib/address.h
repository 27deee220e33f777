/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which addresses can never be part of the fabric, whatever the tables say. */
#pragma once
#include "packet.h"

WEFT_INLINE int weft_check_address4(__be32 address)
{
	__u32 host = bpf_ntohl(address);

	if (host >> 24 == 0)
		return -WEFT_UNSPECIFIED;
	if (host >> 24 == 127)
		return -WEFT_LOOPBACK;
	if (host >> 16 == 0xa9fe)
		return -WEFT_LINK_LOCAL;
	if (host >> 28 == 0xe)
		return -WEFT_MULTICAST;
	if (host == 0xffffffff)
		return -WEFT_BROADCAST;
	return 0;
}

WEFT_INLINE int weft_check_addresses4(const struct weft_packet *packet)
{
	int result = weft_check_address4(packet->source);

	return result ? result : weft_check_address4(packet->destination);
}
