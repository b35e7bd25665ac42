// In steady state a launch, and a wait for it, take nothing from the heap on the thread that asks, whatever the device is. The program's
// allocation functions stand in for the C library's, also for the runtime's calls of them.
// EXPECT device-memory
#include "check.h"
#include "count_allocations.h"

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

int main(void)
{
    free(malloc(1));
    CHECK(allocations > 0);
#pragma acc enter data copyin(field)
    long with = rounds_above(0, ROUNDS, "region", region);
    with += rounds_above(0, ROUNDS, "queued", queued);
    with += rounds_above(0, ROUNDS, "several", several);
    if (separate())
        CHECK(with <= 3 * ROUNDS / 100);
#pragma acc exit data copyout(field)
    CHECK_ALL(field, N, 8 * ROUNDS);
    return pass();
}
