// A peer for the interoperation tests: libudt's own ends of a connection, behind a command line.
//
//   udt_peer listen     ADDRESS PORT       KIND ACTION SIZE COUNT [CONNECTIONS]
//   udt_peer connect    ADDRESS PORT       KIND ACTION SIZE COUNT
//   udt_peer rendezvous ADDRESS PORT LOCAL KIND ACTION SIZE COUNT
//
// KIND is `stream` or `messages`; ACTION is `send`, `receive` or `sleep` (receive after two seconds, with a small buffer).
// Also `talk`: receive, and answer each message of the other end's congestion control with its words plus one;
// and `refuse`: receive into a full file.
// For measurements, ACTION is `blast` or `drain`: SIZE is the packet size, COUNT the time to send in milliseconds; the last
// line then has bytes, seconds, processor seconds and retransmitted packets. A stream has SIZE * COUNT bytes; messages are
// COUNT of SIZE bytes each. Received data are checked; the last line has the received and the wrong amount. A single
// connection then waits until the other end closes: libudt wakes its reader before it acknowledges the data, and a close in
// between would lose the acknowledgement.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <udt/ccc.h>
#include <udt/udt.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const char* what) {
    UDT::ERRORINFO& error = UDT::getlasterror();
    std::printf("failed %s: %d %s\n", what, error.getErrorCode(), error.getErrorMessage());
    std::fflush(stdout);
    std::_Exit(1);
}

void say(const char* what) {
    std::puts(what);
    std::fflush(stdout);
}

// Returns the byte at an offset of every stream; the tests have the same rule.
unsigned char byte_at(std::uint64_t place) {
    const std::uint64_t mixed = (place ^ (place >> 7)) * UINT64_C(0x9e3779b97f4a7c15);
    return static_cast<unsigned char>(mixed >> 56);
}

struct Work {
    bool messages;
    std::string action;
    std::uint64_t size;
    std::uint64_t count;
    bool waits;
};

// A congestion control that returns each message of the other end, its three words increased by one. It reuses the packet:
// the library does not export the functions that create others.
class Talker : public CCC {
    void processCustomMsg(const CPacket* heard) override {
        std::uint32_t words[3];
        std::memcpy(words, heard->m_pcData, sizeof words);
        for (std::uint32_t& word : words) ++word;
        std::memcpy(heard->m_pcData, words, sizeof words);
        sendCustomMsg(*const_cast<CPacket*>(heard));
    }
};

sockaddr_in address_of(const char* ip, int port) {
    sockaddr_in address;
    std::memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (inet_pton(AF_INET, ip, &address.sin_addr) != 1) fail("address");
    return address;
}

UDTSOCKET make_socket(const Work& work) {
    const UDTSOCKET socket = UDT::socket(AF_INET, work.messages ? SOCK_DGRAM : SOCK_STREAM, 0);
    if (work.action == "sleep") {
        int small = 64 * 1472;
        UDT::setsockopt(socket, 0, UDT_RCVBUF, &small, sizeof small);
    }
    if (work.action == "talk") UDT::setsockopt(socket, 0, UDT_CC, new CCCFactory<Talker>, sizeof(CCCFactory<Talker>));
    if (work.action == "blast" || work.action == "drain") {
        int packet_bytes = static_cast<int>(work.size);
        UDT::setsockopt(socket, 0, UDT_MSS, &packet_bytes, sizeof packet_bytes);
    }
    return socket;
}

double seconds_of(clockid_t clock) {
    timespec time;
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

void say_figures(double bytes, double seconds, double cpu_seconds, double again) {
    std::printf("figures %.0f %.9f %.9f %.0f\n", bytes, seconds, cpu_seconds, again);
    std::fflush(stdout);
}

// Sends as fast as possible. Data not yet acknowledged at the end are still sent before the socket closes.
void blast(UDTSOCKET socket, std::uint64_t milliseconds) {
    std::vector<char> block(1 << 18, 7);
    const double began = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    double bytes = 0;
    while (seconds_of(CLOCK_MONOTONIC) - began < static_cast<double>(milliseconds) / 1e3) {
        const int taken = UDT::send(socket, block.data(), static_cast<int>(block.size()), 0);
        if (taken == UDT::ERROR) fail("send");
        bytes += taken;
    }
    UDT::TRACEINFO trace;
    UDT::perfmon(socket, &trace, false);
    const double again = static_cast<double>(trace.pktRetransTotal);
    UDT::close(socket);
    say_figures(bytes, seconds_of(CLOCK_MONOTONIC) - began, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu, again);
}

void drain(UDTSOCKET socket) {
    std::vector<char> block(1 << 18);
    double bytes = UDT::recv(socket, block.data(), static_cast<int>(block.size()), 0);
    const double began = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    double last = began;
    for (;;) {
        const int count = UDT::recv(socket, block.data(), static_cast<int>(block.size()), 0);
        if (count == UDT::ERROR) break;
        last = seconds_of(CLOCK_MONOTONIC);
        bytes += count;
    }
    say_figures(bytes, last - began, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu, 0);
    UDT::close(socket);
}

void send_stream(UDTSOCKET socket, std::uint64_t total) {
    std::vector<char> block(100000);
    std::uint64_t sent = 0;
    while (sent < total) {
        const std::uint64_t want = std::min<std::uint64_t>(block.size(), total - sent);
        for (std::uint64_t at = 0; at < want; ++at) block[at] = static_cast<char>(byte_at(sent + at));
        std::uint64_t done = 0;
        while (done < want) {
            const int taken = UDT::send(socket, block.data() + done, static_cast<int>(want - done), 0);
            if (taken == UDT::ERROR) fail("send");
            done += static_cast<std::uint64_t>(taken);
        }
        sent += want;
    }
}

void receive_stream(UDTSOCKET socket, std::uint64_t total) {
    std::vector<char> block(100000);
    std::uint64_t received = 0, wrong = 0;
    while (received < total) {
        const int count = UDT::recv(socket, block.data(), static_cast<int>(block.size()), 0);
        if (count == UDT::ERROR) break;
        for (int at = 0; at < count; ++at)
            wrong += static_cast<unsigned char>(block[at]) != byte_at(received + static_cast<std::uint64_t>(at));
        received += static_cast<std::uint64_t>(count);
    }
    std::printf("received %llu wrong %llu\n", static_cast<unsigned long long>(received),
                static_cast<unsigned long long>(wrong));
    std::fflush(stdout);
}

// Message number `index` begins at offset `index * size` of the stream.
void send_messages(UDTSOCKET socket, const Work& work) {
    std::vector<char> message(work.size);
    for (std::uint64_t index = 0; index < work.count; ++index) {
        for (std::uint64_t at = 0; at < work.size; ++at)
            message[at] = static_cast<char>(byte_at(index * work.size + at));
        if (UDT::sendmsg(socket, message.data(), static_cast<int>(work.size), -1, true) == UDT::ERROR)
            fail("sendmsg");
    }
}

void receive_messages(UDTSOCKET socket, const Work& work) {
    std::vector<char> message(work.size + 1);
    std::uint64_t received = 0, wrong = 0;
    for (; received < work.count; ++received) {
        const int count = UDT::recvmsg(socket, message.data(), static_cast<int>(message.size()));
        if (count == UDT::ERROR) break;
        bool is_right = static_cast<std::uint64_t>(count) == work.size;
        for (std::uint64_t at = 0; is_right && at < work.size; ++at)
            is_right = static_cast<unsigned char>(message[at]) == byte_at(received * work.size + at);
        wrong += !is_right;
    }
    std::printf("received %llu wrong %llu\n", static_cast<unsigned long long>(received),
                static_cast<unsigned long long>(wrong));
    std::fflush(stdout);
}

// Receives into a full file.
void refuse(UDTSOCKET socket, std::uint64_t total) {
    std::fstream full("/dev/full", std::ios::out | std::ios::binary);
    std::int64_t offset = 0;
    const std::int64_t received = UDT::recvfile(socket, full, offset, static_cast<std::int64_t>(total));
    if (received != UDT::ERROR) fail("recvfile takes it");
    say("refused");
}

// Waits until the other end closes, for some seconds at most.
void await_end(UDTSOCKET socket, bool messages) {
    int patience_ms = 5000;
    UDT::setsockopt(socket, 0, UDT_RCVTIMEO, &patience_ms, sizeof patience_ms);
    char rest[16];
    messages ? UDT::recvmsg(socket, rest, sizeof rest) : UDT::recv(socket, rest, sizeof rest, 0);
}

void act(UDTSOCKET socket, const Work& work) {
    if (work.action == "blast") return blast(socket, work.count);
    if (work.action == "drain") return drain(socket);
    if (work.action == "sleep") sleep(2);
    if (work.action == "send") {
        work.messages ? send_messages(socket, work) : send_stream(socket, work.size * work.count);
    } else {
        if (work.action == "refuse") {
            refuse(socket, work.size * work.count);
        } else {
            work.messages ? receive_messages(socket, work) : receive_stream(socket, work.size * work.count);
        }
        if (work.waits) await_end(socket, work.messages);
    }
    UDT::close(socket);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 8) {
        std::fputs("see the head of the source\n", stderr);
        return 2;
    }
    const std::string mode = argv[1];
    const int after = mode == "rendezvous" ? 5 : 4;
    const int connections = argc > after + 4 ? std::atoi(argv[after + 4]) : 1;
    const Work work{std::string(argv[after]) == "messages", argv[after + 1], std::strtoull(argv[after + 2], nullptr, 10),
                    std::strtoull(argv[after + 3], nullptr, 10), connections == 1};
    UDT::startup();
    const sockaddr_in address = address_of(argv[2], std::atoi(argv[3]));
    const UDTSOCKET socket = make_socket(work);
    if (mode == "listen") {
        if (UDT::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == UDT::ERROR) fail("bind");
        if (UDT::listen(socket, 200) == UDT::ERROR) fail("listen");
        int bound_size = sizeof(sockaddr_in);
        sockaddr_in bound;
        UDT::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &bound_size);
        std::printf("port %d\n", ntohs(bound.sin_port));
        std::fflush(stdout);
        std::vector<UDTSOCKET> accepted;
        for (int index = 0; index < connections; ++index) {
            sockaddr_storage from;
            int from_size = sizeof from;
            const UDTSOCKET one = UDT::accept(socket, reinterpret_cast<sockaddr*>(&from), &from_size);
            if (one == UDT::INVALID_SOCK) fail("accept");
            accepted.push_back(one);
        }
        for (const UDTSOCKET one : accepted) act(one, work);
    } else {
        if (mode == "rendezvous") {
            const bool on = true;
            UDT::setsockopt(socket, 0, UDT_RENDEZVOUS, &on, sizeof on);
            const sockaddr_in local = address_of("127.0.0.1", std::atoi(argv[4]));
            if (UDT::bind(socket, reinterpret_cast<const sockaddr*>(&local), sizeof local) == UDT::ERROR) fail("bind");
        }
        if (UDT::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == UDT::ERROR)
            fail("connect");
        say("connected");
        act(socket, work);
    }
    UDT::cleanup();
    return 0;
}
