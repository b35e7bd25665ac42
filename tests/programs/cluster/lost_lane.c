// Copies between two devices, `lost_lane FROM TO`, until the nodes have lost each other, and again when its input ends.
// Says "ready" once it copies, "lost" when a copy has failed, and "PASS".
#include "error_callback.h"
#include <setjmp.h>
#include <unistd.h>

enum { N = 1 << 16 };
static int a[N];
static jmp_buf away;

static void leave(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    const char *message = ((struct error_event *)event)->error_message;
    fprintf(stderr, "%s\n", message ? message : "no message");
    longjmp(away, 1);
}

static void say(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
}

static void start(acc_device_t type, int from, int to)
{
    for (int i = 0; i < 2; i++) {
        acc_set_device_num(i ? from : to, type);
#pragma acc enter data copyin(a)
    }
}

static void exchange(acc_device_t type, int from, int to, int round)
{
    acc_set_device_num(from, type);
    for (int i = 0; i < N; i++)
        a[i] = round + i;
#pragma acc update device(a)
    acc_memcpy_d2d(a, a, sizeof a, to, from);
    memset(a, 0, sizeof a);
    acc_set_device_num(to, type);
#pragma acc update self(a)
    for (int i = 0; i < N; i++)
        CHECK_EQ(a[i], round + i);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    int from = atoi(argv[1]), to = atoi(argv[2]);
    acc_device_t type = device_type();
    start(type, from, to);
    on_errors(leave);
    if (setjmp(away) == 0) {
        for (int round = 0;; round++) {
            exchange(type, from, to, round);
            if (round == 3)
                say("ready");
        }
    }
    say("lost");
    char byte;
    CHECK(read(0, &byte, 1) == 0);
    // Queues that have failed stay so until then.
    acc_shutdown(type);
    start(type, from, to);
    for (int round = 0; round < 10; round++) {
        exchange(type, from, to, round);
        exchange(type, to, from, round);
    }
    say("PASS");
    return 0;
}
