// ACCORD_UNMAPPED=map: in steady state a launch takes nothing from the heap for the blocks that it is lent. Over lanes their
// copies still take some: at most three a block.
// RUN env=ACCORD_UNMAPPED=map
// EXPECT device-memory
#include "check.h"
#include "count_allocations.h"

enum { N = 100, ROUNDS = 200, OVER_LANES = 3 };
static float table[N], other[N];

__attribute__((noinline)) static void one(float *a)
{
#pragma acc parallel loop
    for (int i = 0; i < N; i++)
        a[i] += 1;
}

__attribute__((noinline)) static void two(float *a, const float *b)
{
#pragma acc parallel loop
    for (int i = 0; i < N; i++)
        a[i] += b[i];
}

static void lend_one(void)
{
    one(table);
}

static void lend_two(void)
{
    two(table, other);
}

/* A local array: the whole stack is lent. */
static void lend_stack(void)
{
    float local[N] = {0};
    one(local);
    CHECK_ALL(local, N, 1);
}

int main(void)
{
    free(malloc(1));
    CHECK(allocations > 0);
    for (int i = 0; i < N; i++)
        other[i] = 1;
    long block = getenv("ACCORD_COORDINATOR") ? OVER_LANES : 0;
    long with = rounds_above(block, ROUNDS, "one block", lend_one);
    with += rounds_above(2 * block, ROUNDS, "two", lend_two);
    with += rounds_above(block, ROUNDS, "stack", lend_stack);
    if (separate())
        CHECK(with <= 3 * ROUNDS / 100);
    CHECK_ALL(table, N, 4 * ROUNDS);
    return pass();
}
