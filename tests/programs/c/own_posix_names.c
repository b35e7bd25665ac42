// The program's own functions have names of POSIX, which ISO C leaves to it. None of them is called by anybody else.
// BUILD flags=-rdynamic
#include "check.h"

#define N 100

static double calls;

#define OWN(NAME) \
    double NAME(double a, double b) { \
        calls++; \
        return a - b; \
    }

OWN(accept) OWN(bind) OWN(close) OWN(connect) OWN(dup) OWN(fcntl) OWN(fsync) OWN(getcwd) OWN(getpid) OWN(getuid)
OWN(ioctl) OWN(kill) OWN(listen) OWN(lseek) OWN(lseek64) OWN(open) OWN(open64) OWN(pause) OWN(poll) OWN(prctl) OWN(raise) OWN(read) OWN(readlink)
OWN(recv) OWN(send) OWN(sendto) OWN(setsockopt) OWN(shutdown) OWN(signal) OWN(sigaction) OWN(socket) OWN(socketpair) OWN(stat64)
OWN(syscall) OWN(unlink) OWN(waitid) OWN(waitpid) OWN(write) OWN(writev) OWN(memfd_create) OWN(posix_spawnp) OWN(clock_gettime)

static int a[N];

int main(void) {
    double difference = read(3, 1) + write(5, 1) + poll(1, 0);
    int sum = 0;
    #pragma acc parallel loop copy(a) reduction(+:sum)
    for (int i = 0; i < N; i++) {
        a[i] += i;
        sum += a[i];
    }
    #pragma acc parallel loop copy(a) async(1)
    for (int i = 0; i < N; i++) {
        a[i] += i;
    }
    #pragma acc wait
    CHECK_EQ(sum, N * (N - 1) / 2);
    CHECK_EQ(a[N - 1], 2 * (N - 1));
    CHECK_EQ(difference, 7);
    CHECK_EQ(calls, 3);
    return pass();
}
