// Common parts of both programs in the kernel: its types, and reading a datagram's addresses, stream and number.
//
// Plain C for clang 14 and later, without any header: only fields that are read are declared, and located at load time in
// the running kernel's own types (CO-RE).

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define ONCE static __attribute__((noinline))
#define RELOCATED __attribute__((preserve_access_index))
#define NUMBER(name, value) int (*name)[value]
#define TYPE(name, type) __typeof__(type) *name
#define BIG_ENDIAN_16(value) __builtin_bswap16(value)

// Helpers of the kernel, by their numbers (linux/bpf.h).
static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*now_ns)(void) = (void *)5;
static long (*read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
static void *(*ring_reserve)(void *ring, u64 bytes, u64 flags) = (void *)131;
static void (*ring_submit)(void *record, u64 flags) = (void *)132;

// The kernel's own types, as far as they are read.
struct ns_common { u32 inum; } RELOCATED;
struct net { struct ns_common ns; } RELOCATED;
typedef struct { struct net *net; } RELOCATED possible_net_t;
struct net_device { int ifindex; possible_net_t nd_net; void *rx_handler; } RELOCATED;
typedef struct { s64 counter; } RELOCATED atomic64_t;
struct sock_common { possible_net_t skc_net; atomic64_t skc_cookie; } RELOCATED;
struct sock { struct sock_common __sk_common; } RELOCATED;
struct skb_shared_info { u16 gso_size, gso_segs; } RELOCATED;
struct sk_buff {
	unsigned char *head, *data;
	u32 len, tail, end;
	int skb_iif;
	u16 protocol, network_header, vlan_proto;
	struct net_device *dev;
	struct sock *sk;
} RELOCATED;

enum { IPV4 = 0x0800, IPV6 = 0x86dd, UDP = 17 };
enum { HOP_BY_HOP = 0, ROUTING = 43, FRAGMENT = 44, DESTINATION_OPTIONS = 60 };
enum { MAX_PORTS = 8, MAX_PROFILES = 4, MAX_COPY = 65000, MAX_HEADERS = 4 };

enum flags {
	IS_INCOMING = 1,   // it has come in by a device of its namespace
	IS_FRAGMENT = 2,
	IS_LATER = 4,      // a fragment without the datagram's beginning: no ports, no number
	IS_NUMBERED = 8,
	IS_PAGED = 16,     // its payload is not where it could be read: the copy has it
	IS_IPV6 = 32,
};

// Position of a protocol's stream and number; offsets in the payload, sizes in bytes, 0 for fields that it lacks.
struct profile {
	u32 magic, mask;   // of the first four bytes, little-endian
	u16 stream_at, incarnation_at, number_at;
	u8 stream_bytes, incarnation_bytes, number_bytes, is_big_endian;
	u16 payload_bytes;   // the shortest payload that has them all
};

// Constants that the loader sets. The verifier takes them for constants and omits the code that they exclude.
const volatile u32 PORTS = 0;
const volatile u16 PORT[MAX_PORTS] = {};
const volatile u32 PROFILES = 0;
const volatile struct profile PROFILE[MAX_PROFILES] = {};

// Similar drops of one processor: same place, reason, socket and addresses, and consecutive numbers.
struct run {
	u64 serial;        // which run of its processor; written last of all, `serial_again` first
	u64 location, cookie, stream, incarnation;
	u8 source[16], destination[16];
	u32 reason, namespace, device;
	u16 source_port, destination_port;
	u32 flags, profile;
	// Up to here they are equal; the following fields may differ within a run.
	u64 begin_ns;
	u64 first, last;   // numbers; where there is none, the first is 0 and each counts one on
	u32 ip_id;
	u16 gso_bytes, gso_segments;
	u32 cpu;
	u32 payload_at;    // in a copy: where the payload begins, counted from the packet's data
	u64 serial_again;
};
_Static_assert(sizeof(struct run) == 144, "as layout.rs reads it");

INLINE u16 read_16(const void *from)
{
	u16 value = 0;
	read_kernel(&value, sizeof value, from);
	return BIG_ENDIAN_16(value);
}

// A number of up to 8 bytes.
INLINE u64 read_number(const void *from, u8 bytes, u8 is_big_endian)
{
	u64 value = 0;
	if (bytes == 0 || bytes > 8)
		return 0;
	read_kernel(&value, bytes, from);
	return is_big_endian ? __builtin_bswap64(value) >> (64 - 8 * bytes) : value;
}

// IPv4 addresses in the form of IPv6: ::ffff:a.b.c.d.
INLINE void map_address(u8 *to, const void *from)
{
	to[10] = to[11] = 0xff;
	read_kernel(to + 12, 4, from);
}

// Reads an IPv4 header; returns the offset of its payload, or 0 if that is not UDP.
INLINE u32 read_ipv4(const unsigned char *header, struct run *run)
{
	u8 first = 0, protocol = 0;
	read_kernel(&first, 1, header);
	read_kernel(&protocol, 1, header + 9);
	if (protocol != UDP)
		return 0;
	map_address(run->source, header + 12);
	map_address(run->destination, header + 16);
	run->ip_id = read_16(header + 4);
	u16 fragment = read_16(header + 6);
	if (fragment & 0x3fff)
		run->flags |= IS_FRAGMENT;
	if (fragment & 0x1fff)
		run->flags |= IS_LATER;
	return (first & 15) * 4;
}

// Reads an IPv6 header and its extension headers in the same way.
INLINE u32 read_ipv6(const unsigned char *header, struct run *run)
{
	u32 at = 40;
	u8 next = 0;
	read_kernel(run->source, 16, header + 8);
	read_kernel(run->destination, 16, header + 24);
	read_kernel(&next, 1, header + 6);
	run->flags |= IS_IPV6;
	for (int i = 0; i < MAX_HEADERS && next != UDP; i++) {
		u8 extension[8] = {};
		read_kernel(extension, sizeof extension, header + at);
		if (next == FRAGMENT) {
			u16 offset = extension[2] << 8 | extension[3];
			run->ip_id = extension[4] << 24 | extension[5] << 16 | extension[6] << 8 | extension[7];
			run->flags |= IS_FRAGMENT;
			if (offset & 0xfff8)
				run->flags |= IS_LATER;
			at += 8;
		} else if (next == HOP_BY_HOP || next == ROUTING || next == DESTINATION_OPTIONS) {
			at += 8 + extension[1] * 8;
		} else {
			return 0;
		}
		next = extension[0];
	}
	return next == UDP ? at : 0;
}

INLINE void read_payload(const unsigned char *payload, u32 bytes, struct run *run)
{
	u32 magic = 0;
	read_kernel(&magic, sizeof magic, payload);
	for (u32 i = 0; i < MAX_PROFILES; i++) {
		if (i >= PROFILES || bytes < PROFILE[i].payload_bytes || (magic & PROFILE[i].mask) != PROFILE[i].magic)
			continue;
		u8 is_big_endian = PROFILE[i].is_big_endian;
		run->stream = read_number(payload + PROFILE[i].stream_at, PROFILE[i].stream_bytes, is_big_endian);
		run->incarnation = read_number(payload + PROFILE[i].incarnation_at, PROFILE[i].incarnation_bytes, is_big_endian);
		run->first = read_number(payload + PROFILE[i].number_at, PROFILE[i].number_bytes, is_big_endian);
		run->last = run->first;
		run->profile = i;
		run->flags |= IS_NUMBERED;
		return;
	}
}

// Reads a packet from the IP header on; false if it is not UDP. The packet's own network header offset may be unset
// or stale where it is dropped early: the bytes it points to decide.
INLINE int read_packet(struct sk_buff *skb, int begins_at_data, struct run *run)
{
	unsigned char *head = skb->head;
	u16 at = begins_at_data ? 0 : skb->network_header, protocol = BIG_ENDIAN_16(skb->protocol);
	u8 version = protocol == IPV4 ? 4 : 6, first = 0;
	if (protocol != IPV4 && protocol != IPV6)
		return 0;
	if (at != 0 && at != 0xffff)
		read_kernel(&first, 1, head + at);
	if (first >> 4 != version) {
		at = (u16)(skb->data - head);
		read_kernel(&first, 1, head + at);
		if (first >> 4 != version)
			return 0;
	}
	u32 header_bytes = version == 4 ? read_ipv4(head + at, run) : read_ipv6(head + at, run);
	if (!header_bytes)
		return 0;
	if (run->flags & IS_LATER)
		return 1;
	u32 udp_at = at + header_bytes, payload_bytes = read_16(head + udp_at + 4) - 8;
	run->source_port = read_16(head + udp_at);
	run->destination_port = read_16(head + udp_at + 2);
	run->payload_at = udp_at + 8 - (u32)(skb->data - head);
	if (udp_at + 8 + 64 > skb->tail && skb->len > skb->tail - (u32)(skb->data - head))
		run->flags |= IS_PAGED;
	else
		read_payload(head + udp_at + 8, payload_bytes, run);
	return 1;
}

INLINE int is_wanted(const struct run *run)
{
	if (PORTS == 0 || run->flags & IS_LATER)
		return 1;
	for (u32 i = 0; i < MAX_PORTS; i++)
		if (i < PORTS && PORT[i] == run->destination_port)
			return 1;
	return 0;
}
