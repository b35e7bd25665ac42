// In steady state a launch, and a wait for it, take nothing from the heap on the thread that asks, whatever the device is. The program's
// allocation functions stand in for the C library's, also for the runtime's calls of them.
// EXPECT device-memory
#include "check.h"
#include <errno.h>

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

enum { N = 100, ROUNDS = 500 };
static float field[N];

__attribute__((noinline)) static void region(void)
{
#pragma acc parallel loop present(field)
    for (int i = 0; i < N; i++)
        field[i] += 1;
}

__attribute__((noinline)) static void queued(void)
{
    int one = 1;
#pragma acc parallel loop present(field) async(1)
    for (int i = 0; i < N; i++)
        field[i] += one;
#pragma acc wait(1)
}

__attribute__((noinline)) static void several(void)
{
#pragma acc parallel loop present(field) async(1)
    for (int i = 0; i < N; i++)
        field[i] += 1;
#pragma acc parallel loop present(field) async(2) wait(1)
    for (int i = 0; i < N; i++)
        field[i] += 1;
#pragma acc wait
}

/* The most that this thread takes in a round, of which many have gone before: what grows with use may grow once more in some. */
static long in_a_round(const char *name, void (*body)(void))
{
    long with = 0, all = 0;
    for (int k = 0; k < ROUNDS; k++)
        body();
    for (int k = 0; k < ROUNDS; k++) {
        long before = allocations;
        body();
        with += allocations != before;
        all += allocations - before;
    }
    printf("%s: %ld allocations in %ld of %d rounds\n", name, all, with, ROUNDS);
    return with;
}

int main(void)
{
    free(malloc(1));
    CHECK(allocations > 0);
#pragma acc enter data copyin(field)
    long with = in_a_round("region", region) + in_a_round("queued", queued) + in_a_round("several", several);
    if (separate())
        CHECK(with <= 3 * ROUNDS / 100);
#pragma acc exit data copyout(field)
    CHECK_ALL(field, N, 8 * ROUNDS);
    return pass();
}
