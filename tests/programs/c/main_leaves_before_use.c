// main ends by pthread_exit before the first region, which another thread has; a child that it forks does the same.
// BUILD flags=-pthread
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int a[1000];

static void add(void)
{
#pragma acc parallel loop copy(a)
    for (int i = 0; i < 1000; i++)
        a[i] += 1;
}

static void *in_child(void *unused)
{
    (void)unused;
    usleep(200000);
    add();
    CHECK_EQ(a[999], 3);
    return 0;
}

static void *first_use(void *unused)
{
    (void)unused;
    usleep(300000);
    add();
    add();
    CHECK_EQ(a[5], 2);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        pthread_create(&thread, 0, in_child, 0);
        pthread_exit(0);
    }
    int status = -1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    pass();
    return 0;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, first_use, 0);
    pthread_exit(0);
}
