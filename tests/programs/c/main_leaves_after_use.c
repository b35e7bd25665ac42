// main ends by pthread_exit after a first region; other threads go on with regions, and the process ends with the last of them.
// BUILD flags=-pthread
// EXPECT stdout=/the last thread/
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static int a[1000];

static void add(void)
{
#pragma acc parallel loop copy(a)
    for (int i = 0; i < 1000; i++)
        a[i] += 1;
}

static void *go_on(void *unused)
{
    (void)unused;
    usleep(300000);
    add();
    add();
    CHECK_EQ(a[5], 3);
    pass();
    return 0;
}

/* Never uses OpenACC, and is the last. */
static void *last(void *unused)
{
    (void)unused;
    sleep(1);
    printf("the last thread\n");
    return 0;
}

int main(void)
{
    pthread_t thread;
    add();
    pthread_create(&thread, 0, go_on, 0);
    pthread_create(&thread, 0, last, 0);
    pthread_exit(0);
}
