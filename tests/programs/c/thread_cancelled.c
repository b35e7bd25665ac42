// A thread is cancelled while it waits for a region: it ends, and the program goes on.
// BUILD flags=-pthread
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static int a[100];
static volatile int begun;

static void *work(void *nothing)
{
    for (;;) {
        int sum = 0;
#pragma acc parallel loop copy(a) reduction(+:sum)
        for (int i = 0; i < 100; i++) {
            a[i] += 1;
            sum += a[i];
        }
        begun = 1;
        pthread_testcancel();
    }
    return nothing;
}

int main(void)
{
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        void *result;
        begun = 0;
        CHECK_EQ(pthread_create(&thread, NULL, work, NULL), 0);
        while (!begun)
            usleep(100);
        usleep(50 * round);
        CHECK_EQ(pthread_cancel(thread), 0);
        CHECK_EQ(pthread_join(thread, &result), 0);
        CHECK(result == PTHREAD_CANCELED);
    }
    int sum = 0;
#pragma acc parallel loop copy(a) reduction(+:sum)
    for (int i = 0; i < 100; i++) {
        a[i] += 1;
        sum += a[i];
    }
    CHECK_EQ(sum, 100 * a[0]);
    return pass();
}
