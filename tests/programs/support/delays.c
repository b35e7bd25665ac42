/* Makes a program's sockets slow now and then: what comes in is handed out late, and what goes out waits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* Of eight calls one pauses, for up to 0.4 ms. */
static void pause_sometimes(void)
{
    static __thread uint64_t state;
    if (!state)
        state = (uintptr_t)&state | 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    if (state % 8 == 0)
        usleep(state / 8 % 400);
}

ssize_t recv(int fd, void *to, size_t bytes, int flags)
{
    static ssize_t (*next)(int, void *, size_t, int);
    if (!next)
        next = (ssize_t (*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv");
    ssize_t got = next(fd, to, bytes, flags);
    if (got > 0)
        pause_sometimes();
    return got;
}

ssize_t send(int fd, const void *from, size_t bytes, int flags)
{
    static ssize_t (*next)(int, const void *, size_t, int);
    if (!next)
        next = (ssize_t (*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send");
    pause_sometimes();
    return next(fd, from, bytes, flags);
}

ssize_t writev(int fd, const struct iovec *from, int count)
{
    static ssize_t (*next)(int, const struct iovec *, int);
    if (!next)
        next = (ssize_t (*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
    pause_sometimes();
    return next(fd, from, count);
}
