// Runs in the kernel for each datagram that it frees unread: reads it, joins it to a run of similar drops, reports runs.
//
// `layout.rs` reads `struct run` and `struct count`; both change together.

#include "packet.bpf.h"

static u32 (*this_cpu)(void) = (void *)8;
static long (*copy_packet)(void *skb, void *map, u64 flags, void *head, u64 bytes) = (void *)111;

const volatile u32 HAS_REASON = 1;   // the tracepoint tells why: since Linux 5.17
const volatile u32 HAS_SOCKET = 1;   // and at which socket: since 6.11
const volatile u32 JOINS = 1;

// In words of 8 bytes.
enum { ALIKE_FROM = 1, ALIKE_TO = __builtin_offsetof(struct run, begin_ns) / 8 };

struct { NUMBER(type, 27); NUMBER(max_entries, 1 << 22); } RUNS SECTION(".maps");
struct { NUMBER(type, 4); NUMBER(key_size, 4); NUMBER(value_size, 4); } COPIES SECTION(".maps");
struct { NUMBER(type, 6); TYPE(key, u32); TYPE(value, struct run); NUMBER(max_entries, 1); } OPEN SECTION(".maps");
struct { NUMBER(type, 6); TYPE(key, u32); TYPE(value, u64); NUMBER(max_entries, 8); } COUNTS SECTION(".maps");

enum count { CALLS, FOREIGN, NO_UDP, REPORTED, UNREPORTED, COPIED, NOT_COPIED };

INLINE void count(enum count which, u64 by)
{
	u32 key = which;
	u64 *value = map_lookup(&COUNTS, &key);
	if (value)
		*value += by;
}

INLINE void report(const struct run *run)
{
	u64 datagrams = run->last - run->first + 1;
	struct run *record = ring_reserve(&RUNS, sizeof *record, 0);
	if (!record) {
		count(UNREPORTED, datagrams);
		return;
	}
	*record = *run;
	ring_submit(record, 0);
	count(REPORTED, datagrams);
}

INLINE int is_alike(const struct run *a, const struct run *b)
{
	const u64 *left = (const u64 *)a, *right = (const u64 *)b;
	u64 differs = 0;
#pragma unroll
	for (int i = ALIKE_FROM; i < ALIKE_TO; i++)
		differs |= left[i] ^ right[i];
	return differs == 0;
}

#define ORDERED() __asm__ volatile("" ::: "memory")

// Joins a drop to the open run of this processor, or reports that run and opens another. A reader of the open run
// compares its two serials: while it is being written they differ.
INLINE void join(struct run *run)
{
	u32 key = 0;
	struct run *open = map_lookup(&OPEN, &key);
	if (!open)
		return;
	if (open->serial) {
		int follows = !(run->flags & IS_NUMBERED) || run->first == open->last + 1;
		if (follows && is_alike(run, open)) {
			open->last++;
			return;
		}
		report(open);
	}
	u64 serial = open->serial + 1;
	run->serial = open->serial;
	run->serial_again = serial;
	open->serial_again = serial;
	ORDERED();
	*open = *run;
	ORDERED();
	open->serial = serial;
}

SECTION("tp_btf/kfree_skb") int on_drop(u64 *context)
{
	struct sk_buff *skb = (void *)context[0];
	struct run run = {};
	count(CALLS, 1);
	if (!read_packet(skb, 0, &run)) {
		count(NO_UDP, 1);
		return 0;
	}
	if (!is_wanted(&run)) {
		count(FOREIGN, 1);
		return 0;
	}
	run.location = context[1];
	if (HAS_REASON)
		run.reason = (u32)context[2];
	struct net_device *device = skb->dev;
	if (device) {
		run.device = device->ifindex;
		run.namespace = device->nd_net.net->ns.inum;
	}
	if (skb->skb_iif)
		run.flags |= IS_INCOMING;
	if (HAS_SOCKET) {
		struct sock *receiver = (void *)context[3];
		if (receiver) {
			run.cookie = receiver->__sk_common.skc_cookie.counter;
			if (!run.namespace)
				run.namespace = receiver->__sk_common.skc_net.net->ns.inum;
		}
	}
	struct sock *owner = skb->sk;
	if (!run.namespace && owner)
		run.namespace = owner->__sk_common.skc_net.net->ns.inum;
	run.cpu = this_cpu();
	run.begin_ns = now_ns();

	struct skb_shared_info *shared = (void *)(skb->head + skb->end);
	read_kernel(&run.gso_bytes, 2, __builtin_preserve_access_index(&shared->gso_size));
	read_kernel(&run.gso_segments, 2, __builtin_preserve_access_index(&shared->gso_segs));
	if (!(run.flags & IS_LATER) && (run.flags & IS_PAGED || run.gso_segments > 1)) {
		u64 bytes = skb->len;
		if (run.gso_segments < 2 && bytes > 256)
			bytes = 256;
		if (bytes > MAX_COPY)
			bytes = MAX_COPY;
		u64 datagrams = run.gso_segments > 1 ? run.gso_segments : 1;
		if (copy_packet(skb, &COPIES, bytes << 32 | 0xffffffffULL, &run, sizeof run))
			count(NOT_COPIED, datagrams);
		else
			count(COPIED, datagrams);
		return 0;
	}
	if (JOINS && !(run.flags & IS_FRAGMENT))
		join(&run);
	else
		report(&run);
	return 0;
}

char LICENSE[] SECTION("license") = "Dual MIT/GPL";
