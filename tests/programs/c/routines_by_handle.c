// Routines that are looked up by the handle of libgomp, of a plug-in, or of the program, are those that regions use.
// BUILD plugin=deepbind.c
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv)
{
    void *handles[3] = {dlopen("libgomp.so.1", RTLD_LAZY), argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL, dlopen(NULL, RTLD_LAZY)};
    int a[10];
    for (int i = 0; i < 3; i++) {
        CHECK(handles[i]);
        void *(*copyin)(void *, size_t) = (void *(*)(void *, size_t))dlsym(handles[i], "acc_copyin");
        void (*copyout)(void *, size_t) = (void (*)(void *, size_t))dlvsym(handles[i], "acc_copyout", "OACC_2.0");
        if (!copyout)
            copyout = (void (*)(void *, size_t))dlsym(handles[i], "acc_copyout");
        CHECK(copyin && copyout);
        for (int k = 0; k < 10; k++)
            a[k] = k;
        copyin(a, sizeof a);
#pragma acc parallel loop present(a)
        for (int k = 0; k < 10; k++)
            a[k] += 3;
        CHECK_EQ(a[9], WANT(9, 12));
        copyout(a, sizeof a);
        CHECK_EQ(a[9], 12);
    }
    return pass();
}
