//go:build ignore

/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One object, so that all programs share their maps. One theme per file.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <linux/errno.h>

/* What C and Go share, and pure functions on bytes. */
#include "event.h"
#include "tag.h"
#include "payload.h"
#include "tls.h"
#include "hpack.h"

/* What is remembered; connections, exchanges, workers: each in one place. */
#include "state.bpf.h"
#include "stores.bpf.h"
#include "weigh.bpf.h"
#include "claim.bpf.h"
#include "path.bpf.h"
#include "conn.bpf.h"
#include "exchange.bpf.h"
#include "inbox.bpf.h"
#include "bytes.bpf.h"
#include "traceparent.bpf.h"
#include "retro.bpf.h"
#include "emit.bpf.h"
#include "golang.bpf.h"
#include "opening.bpf.h"
#include "stack.bpf.h"
#include "guard.bpf.h"
#include "watched.bpf.h"
#include "itself.bpf.h"
#include "proof.bpf.h"
#include "handover.bpf.h"
#include "task.bpf.h"
#include "published.bpf.h"
#include "queue.bpf.h"
#include "header.bpf.h"
#include "thread.bpf.h"
#include "worker.bpf.h"
#include "measure.bpf.h"
#include "server.bpf.h"
#include "client.bpf.h"
#include "streams.bpf.h"
#include "frames.bpf.h"
#include "hpack.bpf.h"
#include "http2.bpf.h"
#include "dns.bpf.h"
#include "unix.bpf.h"

/* Hooks: thin. */
#include "hooks.bpf.c"
#include "syscalls.bpf.c"
#include "ip.bpf.c"
#include "sockops.bpf.c"
#include "arm.bpf.c"
#include "process.bpf.c"
#include "dns.bpf.c"
#include "unix.bpf.c"

/* bpf2go makes Go types of what is named here. */
const struct start_record *unused_start __attribute__((unused));
const struct data_record *unused_data __attribute__((unused));
const struct end_record *unused_end __attribute__((unused));
const struct published_record *unused_published __attribute__((unused));
const struct publisher *unused_publisher __attribute__((unused));
const struct path_record *unused_path __attribute__((unused));
const struct control_record *unused_control __attribute__((unused));
const struct retro_place *unused_retro_place __attribute__((unused));
const struct retro_trigger *unused_retro_trigger __attribute__((unused));
const struct retro_rule *unused_retro_rule __attribute__((unused));
const enum retro_layout *unused_retro_layout __attribute__((unused));
const enum retro_reason *unused_retro_reason __attribute__((unused));
const struct measure_key *unused_measure_key __attribute__((unused));
const struct measure *unused_measure __attribute__((unused));
const enum counter *unused_counter __attribute__((unused));
const enum record_type *unused_record __attribute__((unused));
const enum control_type *unused_control_type __attribute__((unused));
const enum role *unused_role __attribute__((unused));
const enum direction *unused_direction __attribute__((unused));
const enum linking *unused_linking __attribute__((unused));
const enum unlinked *unused_unlinked __attribute__((unused));
const struct header_name *unused_header_name __attribute__((unused));
const struct hpack_tables *unused_hpack_tables __attribute__((unused));
const enum start_flags *unused_start_flags __attribute__((unused));
const enum transport *unused_transport __attribute__((unused));
const enum trust *unused_trust __attribute__((unused));
const enum lookup_limit *unused_lookup_limit __attribute__((unused));
const enum data_flags *unused_data_flags __attribute__((unused));
const enum end_reason *unused_end_reason __attribute__((unused));
const enum go_place *unused_go_place __attribute__((unused));
const enum go_context_kind *unused_go_context_kind __attribute__((unused));
const enum protocol *unused_protocol __attribute__((unused));
const enum outcome *unused_outcome __attribute__((unused));

/*
 * clang 19 forward-declares types that it meets only behind pointers, in an order that differs from
 * one directory to another. What is named here is declared whole.
 */
const struct bpf_iter_meta *unused_iter_meta __attribute__((unused));
const struct bpf_flow_keys *unused_flow_keys __attribute__((unused));
const struct bpf_local_storage *unused_local_storage __attribute__((unused));
const struct bpf_sock *unused_sock __attribute__((unused));

char LICENSE[] SEC("license") = "Dual BSD/GPL";
