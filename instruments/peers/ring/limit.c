/* Upper limit of two processors: a bare ring of slots between two processes, copied in with memcpy and copied
 * out with memcpy, without headers or validation, for one reader.
 *
 *   limit latency spin|futex MESSAGE_BYTES RING_BYTES WARM_UP EXCHANGES    prints p50 p99 p99.9, one way, us
 *   limit bandwidth MESSAGE_BYTES RING_BYTES MILLISECONDS                  prints messages and seconds
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Two cache lines: processors prefetch the adjacent line too. */
#define APART _Alignas(128)

struct ring {
    APART atomic_uint written;
    APART atomic_uint read;
    APART atomic_uint asleep;
    APART atomic_uint closed;
    APART size_t message_bytes;
    unsigned slot_count;
    APART char slots[];
};

/* A run takes seconds; a hung one must not block its parent. */
static const unsigned WATCHDOG_SECONDS = 60;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void pause_a_little(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* As in the bench: the first side runs on processor 0, the second on 1 if there is one. */
static void stand_on(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) > processor ? processor : 0, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static struct ring *make_ring(size_t message_bytes, size_t ring_bytes) {
    unsigned slot_count = 2;
    while ((size_t)slot_count * 2 * message_bytes <= ring_bytes) slot_count *= 2;
    size_t size_bytes = sizeof(struct ring) + slot_count * message_bytes;
    struct ring *ring = mmap(0, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (ring == MAP_FAILED) fail("the ring's memory");
    ring->message_bytes = message_bytes;
    ring->slot_count = slot_count;
    return ring;
}

static char *slot(struct ring *ring, unsigned index) {
    return ring->slots + (size_t)(index & (ring->slot_count - 1)) * ring->message_bytes;
}

/* Memory that the compiler must treat as written and read elsewhere. */
static char *make_message(size_t message_bytes) {
    char *message = malloc(message_bytes);
    if (!message) fail("a message's memory");
    memset(message, 3, message_bytes);
    return message;
}

static void keep(void *message) { __asm__ volatile("" ::"r"(message) : "memory"); }

static void wait_for(struct ring *ring, unsigned index, int sleepy) {
    while (atomic_load_explicit(&ring->written, memory_order_acquire) == index) {
        if (!sleepy) {
            pause_a_little();
            continue;
        }
        atomic_store(&ring->asleep, 1);
        if (atomic_load(&ring->written) == index) syscall(SYS_futex, &ring->written, FUTEX_WAIT, index, 0, 0, 0);
        atomic_store(&ring->asleep, 0);
    }
}

static void send_message(struct ring *ring, unsigned index, char *message, int sleepy) {
    keep(message);
    memcpy(slot(ring, index), message, ring->message_bytes);
    atomic_store_explicit(&ring->written, index + 1, memory_order_release);
    if (!sleepy) return;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&ring->asleep)) syscall(SYS_futex, &ring->written, FUTEX_WAKE, 1, 0, 0, 0);
}

static void receive_message(struct ring *ring, unsigned index, char *message, int sleepy) {
    wait_for(ring, index, sleepy);
    memcpy(message, slot(ring, index), ring->message_bytes);
    keep(message);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double share(const double *sorted, unsigned count, double wanted) {
    return sorted[(unsigned)((count - 1) * wanted + 0.5)] / 2 * 1e6;
}

static int latency(char **arguments) {
    int sleepy = !strcmp(arguments[0], "futex");
    size_t message_bytes = strtoul(arguments[1], 0, 10), ring_bytes = strtoul(arguments[2], 0, 10);
    unsigned warm_up = strtoul(arguments[3], 0, 10), exchanges = strtoul(arguments[4], 0, 10);
    struct ring *there = make_ring(message_bytes, ring_bytes), *back = make_ring(message_bytes, ring_bytes);
    char *message = make_message(message_bytes);
    double *spent = calloc(exchanges, sizeof *spent);
    if (!spent) fail("the figures' memory");
    pid_t other = fork();
    if (other < 0) fail("a second process");
    if (!other) {
        prctl(PR_SET_PDEATHSIG, 9);
        stand_on(1);
        for (unsigned index = 0; index < warm_up + exchanges; index++) {
            receive_message(there, index, message, sleepy);
            send_message(back, index, message, sleepy);
        }
        _exit(0);
    }
    stand_on(0);
    for (unsigned index = 0; index < warm_up + exchanges; index++) {
        double begun = seconds();
        send_message(there, index, message, sleepy);
        receive_message(back, index, message, sleepy);
        if (index >= warm_up) spent[index - warm_up] = seconds() - begun;
    }
    waitpid(other, 0, 0);
    qsort(spent, exchanges, sizeof *spent, by_value);
    printf("%.6f %.6f %.6f\n", share(spent, exchanges, 0.5), share(spent, exchanges, 0.99), share(spent, exchanges, 0.999));
    return 0;
}

static void read_along(struct ring *ring) {
    char *message = make_message(ring->message_bytes);
    unsigned index = 0, written = 0;
    double begun = 0;
    for (;;) {
        while (index == written) {
            /* The order matters: closed is set after the last message. */
            unsigned closed = atomic_load_explicit(&ring->closed, memory_order_acquire);
            written = atomic_load_explicit(&ring->written, memory_order_acquire);
            if (index != written) break;
            if (closed) {
                printf("%u %.9f\n", index, seconds() - begun);
                return;
            }
            pause_a_little();
        }
        if (!index) begun = seconds();
        memcpy(message, slot(ring, index), ring->message_bytes);
        keep(message);
        atomic_store_explicit(&ring->read, ++index, memory_order_release);
    }
}

static int bandwidth(char **arguments) {
    size_t message_bytes = strtoul(arguments[0], 0, 10), ring_bytes = strtoul(arguments[1], 0, 10);
    double duration = strtod(arguments[2], 0) / 1e3;
    struct ring *ring = make_ring(message_bytes, ring_bytes);
    char *message = make_message(message_bytes);
    pid_t reader = fork();
    if (reader < 0) fail("a second process");
    if (!reader) {
        prctl(PR_SET_PDEATHSIG, 9);
        stand_on(1);
        read_along(ring);
        fflush(stdout);
        _exit(0);
    }
    stand_on(0);
    unsigned index = 0, read = 0;
    for (double end = seconds() + duration; index % 16 || seconds() < end;) {
        while (index - read == ring->slot_count) {
            read = atomic_load_explicit(&ring->read, memory_order_acquire);
            if (index - read == ring->slot_count) pause_a_little();
        }
        keep(message);
        memcpy(slot(ring, index), message, message_bytes);
        atomic_store_explicit(&ring->written, ++index, memory_order_release);
    }
    atomic_store_explicit(&ring->closed, 1, memory_order_release);
    waitpid(reader, 0, 0);
    return 0;
}

int main(int count, char **arguments) {
    alarm(WATCHDOG_SECONDS);
    if (count == 7 && !strcmp(arguments[1], "latency")) return latency(arguments + 2);
    if (count == 5 && !strcmp(arguments[1], "bandwidth")) return bandwidth(arguments + 2);
    fputs("limit latency spin|futex MESSAGE_BYTES RING_BYTES WARM_UP EXCHANGES\n"
          "limit bandwidth MESSAGE_BYTES RING_BYTES MILLISECONDS\n", stderr);
    return 2;
}
