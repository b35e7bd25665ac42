// Spends its time in one phase, `phases open|launch|copies|d2d|wait|close`, until its input ends; every byte that comes back is checked.
// Says where it is: "opening", "working", "closing", "PASS".
#include "check.h"
#include <poll.h>
#include <unistd.h>

enum { N = 1 << 18 };
static int a[N], b[N];

static void say(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
}

static int may_go_on(void)
{
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, 0) == 0;
}

static void launch(int round)
{
#pragma acc parallel loop present(a) async(1)
    for (int i = 0; i < N; i++)
        a[i] += 1;
#pragma acc wait(1)
    if (round % 8 == 0) {
#pragma acc update self(a)
        CHECK_ALL(a, N, round);
    }
}

static void copies(int round)
{
    for (int i = 0; i < N; i++)
        a[i] = round + i % 7;
#pragma acc update device(a) async(1)
#pragma acc wait(1)
    memset(a, 0, sizeof a);
#pragma acc update self(a)
    for (int i = 0; i < N; i++)
        CHECK_EQ(a[i], round + i % 7);
}

static void d2d(int round, int from, int to, acc_device_t type)
{
    int source = round % 2 ? from : to, target = round % 2 ? to : from;
    acc_set_device_num(source, type);
    for (int i = 0; i < N; i++)
        a[i] = 3 * round + i % 5;
#pragma acc update device(a)
    acc_memcpy_d2d(a, a, sizeof a, target, source);
    memset(a, 0, sizeof a);
    acc_set_device_num(target, type);
#pragma acc update self(a)
    for (int i = 0; i < N; i++)
        CHECK_EQ(a[i], 3 * round + i % 5);
}

static void wait_long(int round)
{
#pragma acc parallel present(a) async(1)
    {
        for (volatile int spin = 0; spin < 10000000; spin++)
            ;
        a[0] = round;
    }
#pragma acc wait(1)
#pragma acc update self(a[0:1])
    CHECK_EQ(a[0], round);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const char *phase = argv[1];
    say("opening");
    acc_device_t type = device_type();
    int devices = acc_get_num_devices(type);
    CHECK(devices >= 2);
    int from = devices - 1, to = devices - 2;
    for (int d = to; d <= from; d++) {
        acc_set_device_num(d, type);
#pragma acc enter data copyin(a, b)
    }
    // A process hit between two copies is hit where their lanes are there; who makes them is needed while a session opens.
    for (int round = -1; round <= 0 && !strcmp(phase, "d2d"); round++)
        d2d(round, from, to, type);
    say("working");
    for (int round = 1; strcmp(phase, "open") && strcmp(phase, "close") && may_go_on(); round++) {
        acc_set_device_num(from, type);
        if (!strcmp(phase, "launch"))
            launch(round);
        else if (!strcmp(phase, "copies"))
            copies(round);
        else if (!strcmp(phase, "d2d"))
            d2d(round, from, to, type);
        else if (!strcmp(phase, "wait"))
            wait_long(round);
    }
    while (!strcmp(phase, "close") && may_go_on())
        usleep(1000);
    say("closing");
    for (int d = to; d <= from; d++) {
        acc_set_device_num(d, type);
#pragma acc exit data delete(a, b)
    }
    acc_shutdown(type);
    say("PASS");
    return 0;
}
