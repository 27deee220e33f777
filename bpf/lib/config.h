/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Constants that the agent sets before load, so that the verifier removes what
 * they make unreachable. */
#pragma once
#include <linux/types.h>

/* Interface index of the overlay device. */
volatile const __u32 weft_overlay_ifindex = 0;
/* VXLAN network identifier of this cluster's overlay. */
volatile const __u32 weft_vni = 0;
/* UDP port of probes and TCP port of the peer channel, in host byte order. */
volatile const __u16 weft_probe_port = 0;
volatile const __u16 weft_channel_port = 0;
/* Where the IP header begins: 0 on lanes, 14 on devices with Ethernet. */
volatile const __u8 weft_l3_offset = 0;
/* This node's address inside the fabric; 0 if it has none yet. */
volatile const __be32 weft_fabric_address = 0;
