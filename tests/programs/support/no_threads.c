// Refuses threads to libacc, as a system without any left does.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    Dl_info caller;
    if (dladdr(__builtin_return_address(0), &caller) && strstr(caller.dli_fname, "libacc.so"))
        return EAGAIN;
    if (!create)
        create = dlsym(RTLD_NEXT, "pthread_create");
    return create(thread, attributes, start, argument);
}
