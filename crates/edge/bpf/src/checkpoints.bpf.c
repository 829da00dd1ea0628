// Runs in the kernel for each datagram that passes a checkpoint of its path: before the sending queue, behind it,
// and at reception. It keeps the number that should come next, and reports only where another one comes.
//
// `checkpoints.rs` reads `struct gap`, `struct passed` and `struct count`; they change together.

#include "packet.bpf.h"

static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*repeat)(u32 times, void *step, void *context, u64 flags) = (void *)181;
static long (*dynptr_read)(void *to, u32 bytes, void *from, u32 offset, u64 flags) = (void *)201;
struct bpf_dynptr { u64 opaque[2]; } __attribute__((aligned(8)));

// A function of the kernel without a fixed number: the loader writes its actual number into the call (`object.rs`).
static int (*dynptr_from_skb)(struct sk_buff *skb, u64 flags, struct bpf_dynptr *to) = (void *)0x7a11ca57;
const volatile u32 HAS_DYNPTR = 0;

// Address of `br_handle_frame`: packets that a bridge takes from its devices are not counted twice. 0 without bridges.
const volatile u64 BRIDGE = 0;

enum checkpoint { QUEUE, TRANSMIT, RECEIVE };
enum { CREATE = 1, MAX_SEGMENTS = 128, MAX_HEADER = 64, LEAST_HEADER = 12, MAX_RETRIES = 4 };

// A number further away than this belongs to another stream or is damaged, unless the next one follows it.
enum { MAX_JUMP = 1 << 20 };

// A stream from one sender to one destination, at one checkpoint of one device.
struct flow {
	u64 stream, incarnation;
	u8 source[16], destination[16];
	u32 namespace, device;
	u16 source_port, destination_port;
	u8 checkpoint, profile;
	u16 unused;
};
_Static_assert(sizeof(struct flow) == 64, "as checkpoints.rs reads it");

struct passed {
	u64 first, next, datagrams;
	u64 aside;   // what would follow a number that was too far away to be believed
};
_Static_assert(sizeof(struct passed) == 32, "as checkpoints.rs reads it");

// Numbers `first` up to `end` came where `expected` should have come.
struct gap {
	struct flow flow;
	u64 at_ns, expected, first, end;
};
_Static_assert(sizeof(struct gap) == 96, "as checkpoints.rs reads it");

struct { NUMBER(type, 27); NUMBER(max_entries, 1 << 22); } GAPS SECTION(".maps");
struct { NUMBER(type, 9); TYPE(key, struct flow); TYPE(value, struct passed); NUMBER(max_entries, 4096); } FLOWS SECTION(".maps");
struct { NUMBER(type, 6); TYPE(key, u32); TYPE(value, u64); NUMBER(max_entries, 8); } COUNTS SECTION(".maps");

enum count { RECEIVED, UNREAD, UNREPORTED };

INLINE void count(enum count which, u64 by)
{
	u32 key = which;
	u64 *value = map_lookup(&COUNTS, &key);
	if (value)
		*value += by;
}

INLINE void report(const struct flow *flow, u64 expected, u64 first, u64 end)
{
	struct gap *gap = ring_reserve(&GAPS, sizeof *gap, 0);
	if (!gap) {
		count(UNREPORTED, 1);
		return;
	}
	gap->flow = *flow;
	gap->at_ns = now_ns();
	gap->expected = expected;
	gap->first = first;
	gap->end = end;
	ring_submit(gap, 0);
}

// Numbers wrap at the width that the protocol gives them.
INLINE u64 mask_of(u8 profile)
{
	for (u32 i = 0; i < MAX_PROFILES; i++)
		if (i == profile && PROFILE[i].number_bytes < 8)
			return (1ULL << 8 * PROFILE[i].number_bytes) - 1;
	return ~0ULL;
}

// Takes consecutive numbers. Two processors may do so for one flow at once: the second one tries again.
ONCE void pass(const struct flow *flow, u64 first, u64 end)
{
	u64 mask = mask_of(flow->profile), next_but = end & mask;
	struct passed *passed = map_lookup(&FLOWS, flow);
	if (!passed) {
		struct passed begun = {.first = first, .next = next_but, .datagrams = end - first};
		if (!map_update(&FLOWS, flow, &begun, CREATE))
			return;
		passed = map_lookup(&FLOWS, flow);
		if (!passed)
			return;
	}
	__sync_fetch_and_add(&passed->datagrams, end - first);
	for (int i = 0; i < MAX_RETRIES; i++) {
		u64 next = *(volatile u64 *)&passed->next, ahead = (first - next) & mask;
		int is_behind = ahead > mask / 2, is_near = (is_behind ? (next - first) & mask : ahead) <= MAX_JUMP;
		if (!is_near && passed->aside != first) {
			passed->aside = next_but;
			return;
		}
		if (is_near && is_behind) {
			report(flow, next, first, end);
			return;
		}
		if (__sync_val_compare_and_swap(&passed->next, next, next_but) != next)
			continue;
		// A stream that continues far behind has restarted.
		if (ahead && !is_behind)
			report(flow, next, first, end);
		return;
	}
	count(UNREPORTED, 1);
}

// A train, or a datagram whose payload is in pages, while its numbers are read.
struct train {
	struct bpf_dynptr packet;
	struct flow flow;
	u64 first, end;   // numbers in a row that are not told yet
	u32 at, stride, whole;
};

ONCE void tell(struct train *train)
{
	if (train->first != train->end)
		pass(&train->flow, train->first, train->end);
	train->first = train->end;
}

// Takes the next datagram; true where there is none.
static long take_segment(u32 index, struct train *train)
{
	unsigned char payload[MAX_HEADER] = {};
	struct run run = {};
	u32 left = train->whole - train->at, bytes = left < train->stride ? left : train->stride;
	(void)index;
	if (train->at >= train->whole)
		return 1;
	if (dynptr_read(payload, sizeof payload, &train->packet, train->at, 0)
	    && dynptr_read(payload, LEAST_HEADER, &train->packet, train->at, 0)) {
		count(UNREAD, 1);
		return 1;
	}
	train->at += train->stride;
	read_payload(payload, bytes < sizeof payload ? bytes : sizeof payload, &run);
	if (!(run.flags & IS_NUMBERED))
		return 0;
	struct flow *flow = &train->flow;
	if (train->end != run.first || flow->stream != run.stream || flow->incarnation != run.incarnation || flow->profile != run.profile) {
		tell(train);
		train->first = run.first;
		flow->stream = run.stream;
		flow->incarnation = run.incarnation;
		flow->profile = run.profile;
	}
	train->end = run.first + 1;
	return 0;
}

// The number of each datagram is at the beginning of its segment, wherever the kernel keeps it.
ONCE void take_train(struct sk_buff *skb, const struct flow *flow, u32 at, u32 stride)
{
	struct train train = {.flow = *flow, .at = at, .stride = stride, .whole = skb->len};
	if (!HAS_DYNPTR || dynptr_from_skb(skb, 0, &train.packet)) {
		count(UNREAD, 1);
		return;
	}
	// Empty at a number that the verifier does not know: otherwise it would follow each one on from 0.
	train.first = train.end = now_ns();
	repeat(MAX_SEGMENTS, take_segment, &train, 0);
	tell(&train);
}

ONCE int check(struct sk_buff *skb, enum checkpoint checkpoint)
{
	struct run run = {};
	if (!read_packet(skb, checkpoint == RECEIVE, &run) || run.flags & IS_LATER || !is_wanted(&run))
		return 0;
	struct flow flow = {
		.checkpoint = checkpoint,
		.source_port = run.source_port,
		.destination_port = run.destination_port,
	};
	__builtin_memcpy(flow.source, run.source, sizeof flow.source);
	__builtin_memcpy(flow.destination, run.destination, sizeof flow.destination);
	struct net_device *device = skb->dev;
	if (device) {
		flow.device = device->ifindex;
		flow.namespace = device->nd_net.net->ns.inum;
	}
	u16 segment_bytes = 0;
	struct skb_shared_info *shared = (void *)(skb->head + skb->end);
	read_kernel(&segment_bytes, sizeof segment_bytes, __builtin_preserve_access_index(&shared->gso_size));
	if (segment_bytes || run.flags & IS_PAGED) {
		take_train(skb, &flow, run.payload_at, segment_bytes ? segment_bytes : skb->len);
		return 0;
	}
	if (!(run.flags & IS_NUMBERED))
		return 0;
	flow.stream = run.stream;
	flow.incarnation = run.incarnation;
	flow.profile = run.profile;
	pass(&flow, run.first, run.first + 1);
	return 0;
}

// The kernel counts received packets (`/proc/net/softnet_stat`), again where devices are stacked or a tag is
// removed. This is called at most as often; if it is called less often, packets were not seen.
INLINE void count_received(struct sk_buff *skb)
{
	struct net_device *device = skb->dev;
	u64 times = 1;
	if (device && device->rx_handler && (u64)device->rx_handler != BRIDGE)
		times++;
	if (skb->vlan_proto)
		times++;
	count(RECEIVED, times);
}

SECTION("tp_btf/net_dev_queue") int on_queue(u64 *context) { return check((void *)context[0], QUEUE); }
SECTION("tp_btf/net_dev_start_xmit") int on_transmit(u64 *context) { return check((void *)context[0], TRANSMIT); }
SECTION("tp_btf/netif_receive_skb") int on_receive(u64 *context)
{
	count_received((void *)context[0]);
	return check((void *)context[0], RECEIVE);
}

char LICENSE[] SECTION("license") = "Dual MIT/GPL";
