/* Counts what each thread takes from the heap: the program's allocation functions stand in for the C library's, also for the runtime's
   calls of them. To be included in one file of a program. */
#ifndef COUNT_ALLOCATIONS_H
#define COUNT_ALLOCATIONS_H
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static _Thread_local long allocations __attribute__((tls_model("initial-exec")));

void *malloc(size_t bytes)
{
    allocations++;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    allocations++;
    return __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
    allocations++;
    return __libc_realloc(block, bytes);
}

int posix_memalign(void **to, size_t alignment, size_t bytes)
{
    allocations++;
    *to = __libc_memalign(alignment, bytes);
    return *to ? 0 : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    allocations++;
    return __libc_memalign(alignment, bytes);
}

void free(void *block)
{
    __libc_free(block);
}

/* In how many of so many rounds this thread takes more than `expected`, of which as many have gone before: what grows with use may
   grow once more in some. */
__attribute__((unused)) static long rounds_above(long expected, int rounds, const char *name, void (*body)(void))
{
    long above = 0, all = 0;
    for (int k = 0; k < rounds; k++)
        body();
    for (int k = 0; k < rounds; k++) {
        long before = allocations;
        body();
        above += allocations - before > expected;
        all += allocations - before;
    }
    printf("%s: %ld allocations in %d rounds, more than %ld in %ld of them\n", name, all, rounds, expected, above);
    return above;
}
#endif
