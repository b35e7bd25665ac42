// Refuses threads, as a system without any left does: to executors from the one on whose number is in EXECUTOR_THREADS, and to agents of MPI
// jobs, which are executors too, from AGENT_THREADS on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_long left = -1;

__attribute__((constructor)) static void find(void)
{
    char line[4096] = {0};
    FILE *file = fopen("/proc/self/cmdline", "r");
    size_t len = file ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file)
        fclose(file);
    const char *first = line + strlen(line) + 1, *most = NULL;
    if (first < line + len && strcmp(first, "executor") == 0)
        most = getenv("EXECUTOR_THREADS");
    else if (first < line + len && *first == '-' && strstr(line, "accord-node-agent"))
        most = getenv("AGENT_THREADS");
    if (most)
        left = atol(most);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    /* Threads are begun by several at once. */
    long now = left;
    while (now > 0 && !atomic_compare_exchange_weak(&left, &now, now - 1))
        ;
    if (now == 0)
        return EAGAIN;
    if (!create)
        create = dlsym(RTLD_NEXT, "pthread_create");
    return create(thread, attributes, start, argument);
}
