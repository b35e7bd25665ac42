// Threads with small stacks.
// BUILD flags=-pthread
#include "check.h"
#include <pthread.h>

static void *work(void *arg)
{
    int *x = arg;
#pragma acc parallel copy(x[0:10])
    for (int i = 0; i < 10; i++)
        x[i] += i;
    return NULL;
}

int main(void)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK_EQ(pthread_attr_setstacksize(&attributes, 192 << 10), 0);
    for (int round = 0; round < 3; round++) {
        int x[10] = {0};
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, &attributes, work, x), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        for (int i = 0; i < 10; i++)
            CHECK_EQ(x[i], i);
    }
    return pass();
}
