/* The raw thing beside a remote GPU: a process that echoes, swallows and gives bytes over TCP, as an executor does,
   and drives the GPUs by the CUDA driver when asked. It is forked before the program uses OpenACC. */
#ifndef GPU_SERVER_H
#define GPU_SERVER_H
#include "gpu_raw.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* 64 bytes there and back: 'p' is a ping, 's' announces bytes to swallow, 'g' asks for bytes; 'l' launches an empty
   kernel and waits for it before the answer; the others do a thing by the driver `count` times and tell how long each
   took: 'L' launches and waits, 'i' and 'o' copy 8 bytes in and out, 'd' copies `bytes` from one GPU to another. */
struct ask {
    char what, pad[7];
    uint64_t bytes, count;
    double us;
    char fill[32];
};

static void server_all(int fd, void *bytes, size_t count, int sending)
{
    char *at = bytes;
    while (count) {
        ssize_t moved = sending ? send(fd, at, count, MSG_NOSIGNAL) : recv(fd, at, count, 0);
        if (moved <= 0) {
            perror(sending ? "send" : "recv");
            exit(1);
        }
        at += moved;
        count -= moved;
    }
}

/* What the driver needs for the server's tasks; nothing of it where there is no driver. */
static struct {
    raw_handle context, peer, function, stream;
    raw_ptr memory, far;
} server;

static void server_gpus(uint64_t bytes)
{
    /* The program's own host may have no devices: the server's GPUs are those of the other hosts. */
    const char *visible = getenv("BENCH_CUDA_VISIBLE_DEVICES");
    if (visible && !strcmp(visible, "all"))
        unsetenv("CUDA_VISIBLE_DEVICES");
    else if (visible)
        setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    if (!raw_try_load())
        return;
    raw_handle module, popped;
    server.peer = raw_context(1);
    if (server.peer) {
        RAW(cuMemAlloc_v2, &server.far, bytes);
        RAW(cuCtxPopCurrent_v2, &popped);
    }
    server.context = raw_context(0);
    if (!server.context)
        return;
    RAW(cuModuleLoadData, &module, raw_ptx);
    RAW(cuModuleGetFunction, &server.function, module, "empty");
    RAW(cuStreamCreate, &server.stream, 1);
    RAW(cuMemAlloc_v2, &server.memory, bytes);
    if (server.peer) {
        /* Both ways, as either GPU may be the one that copies. Without it copies pass through the host. */
        int there = RAW_CODE(cuCtxEnablePeerAccess, server.peer, 0);
        RAW(cuCtxPushCurrent_v2, server.peer);
        int back = RAW_CODE(cuCtxEnablePeerAccess, server.context, 0);
        RAW(cuCtxPopCurrent_v2, &popped);
        if (there || back)
            fprintf(stderr, "the GPUs have no access to each other: %d, %d\n", there, back);
    }
}

static void server_task(struct ask *ask)
{
    uint64_t word = 0;
    void *parameters[] = { &word };
    double start = now_us();
    for (uint64_t i = 0; i < ask->count; i++) {
        switch (ask->what) {
        case 'l':
        case 'L':
            RAW(cuLaunchKernel, server.function, 1, 1, 1, 32, 1, 1, 0, server.stream, parameters, NULL);
            break;
        case 'i':
            RAW(cuMemcpyHtoD_v2, server.memory, &word, sizeof word);
            break;
        case 'o':
            RAW(cuMemcpyDtoH_v2, &word, server.memory, sizeof word);
            break;
        case 'd':
            RAW(cuMemcpyPeerAsync, server.far, server.peer, server.memory, server.context, ask->bytes, server.stream);
            break;
        }
        if (ask->what != 'i' && ask->what != 'o')
            RAW(cuStreamSynchronize, server.stream);
    }
    ask->us = (now_us() - start) / ask->count;
}

static void server_serve(int listening, uint64_t bytes)
{
    enum { PIECE = 1 << 20 };
    int one = 1, fd = accept(listening, 0, 0);
    char *buffer = malloc(PIECE);
    struct ask ask;
    memset(buffer, 1, PIECE);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    server_gpus(bytes);
    while (recv(fd, &ask, sizeof ask, MSG_WAITALL) == sizeof ask) {
        if (ask.what == '?')
            ask.count = !!server.context + !!server.peer;
        else if (ask.what == 's' || ask.what == 'g')
            for (uint64_t left = ask.bytes; left;) {
                size_t n = left < PIECE ? left : PIECE;
                server_all(fd, buffer, n, ask.what == 'g');
                left -= n;
            }
        else if (ask.what != 'p')
            server_task(&ask);
        if (ask.what != 'g')
            server_all(fd, &ask, sizeof ask, 1);
    }
}

/* Starts the server, which ends with the program, on the address of a local cluster's second host; the connection to
   it. Its GPUs hold `bytes` each. */
static int server_start(uint64_t bytes)
{
    int one = 1, listening = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t length = sizeof address;
    inet_pton(AF_INET, getenv("BENCH_ADDRESS") ? getenv("BENCH_ADDRESS") : "127.0.0.3", &address.sin_addr);
    if (bind(listening, (void *)&address, length) || listen(listening, 1) ||
        getsockname(listening, (void *)&address, &length)) {
        perror("listen");
        exit(1);
    }
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        server_serve(listening, bytes);
        _exit(0);
    }
    close(listening);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (void *)&address, sizeof address)) {
        perror("connect");
        exit(1);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* One exchange; how long it took in microseconds, here. */
static double server_ask(int fd, struct ask *ask)
{
    double start = now_us();
    server_all(fd, ask, sizeof *ask, 1);
    server_all(fd, ask, sizeof *ask, 0);
    return now_us() - start;
}

/* GPUs that the server has. */
static int server_count(int fd)
{
    struct ask ask = { .what = '?' };
    server_ask(fd, &ask);
    return (int)ask.count;
}

/* How long the driver takes for a thing, each of `count` times, in microseconds. */
static double server_raw(int fd, char what, uint64_t count, uint64_t bytes)
{
    struct ask ask = { .what = what, .count = count, .bytes = bytes };
    server_ask(fd, &ask);
    return ask.us;
}

/* Sends bytes until the server has them, or takes bytes from it; in microseconds. */
static double server_stream(int fd, char what, void *data, uint64_t bytes)
{
    struct ask ask = { .what = what, .bytes = bytes };
    double start = now_us();
    server_all(fd, &ask, sizeof ask, 1);
    server_all(fd, data, bytes, what == 's');
    if (what == 's')
        server_all(fd, &ask, sizeof ask, 0);
    return now_us() - start;
}
#endif
