// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include "lib/config.h"
#include "lib/maps.h"
#include "lib/reasons.h"

SEC("tc")
int weft_border_ingress(struct __sk_buff *skb)
{
	return TC_ACT_UNSPEC;
}

SEC("tc")
int weft_border_egress(struct __sk_buff *skb)
{
	return TC_ACT_UNSPEC;
}

/* Named here so that it is in BTF, from which the Go type is made. */
const struct weft_probe *weft_probe_type __attribute__((unused));

char _license[] SEC("license") = "Dual BSD/GPL";
