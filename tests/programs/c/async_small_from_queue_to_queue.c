// A small array that queues hand to each other: the region that comes last finds what the one before it made of the array, also where
// that copies it out only, and whether its bytes have reached the program already or not.
#include "check.h"

enum { N = 8, ROUNDS = 450 };
static int a[N];

static void copied_out(void)
{
#pragma acc parallel loop copy(a) async(1)
    for (int i = 0; i < N; i++)
        a[i] = a[i] + 591;
#pragma acc parallel loop copyout(a) async(3) wait(1)
    for (int i = 0; i < N; i++)
        a[i] = 700;
#pragma acc parallel loop copy(a) async(1) wait(3)
    for (int i = 0; i < N; i++)
        a[i] = a[i] * 4 + 169;
#pragma acc wait
    CHECK_ALL(a, N, 2969);
}

static void copied_both_ways(void)
{
#pragma acc parallel loop copy(a) async(1)
    for (int i = 0; i < N; i++)
        a[i] = a[i] + 591;
#pragma acc parallel loop copy(a) async(3) wait(1)
    for (int i = 0; i < N; i++)
        a[i] = a[i] + 109;
#pragma acc parallel loop copy(a) async(1) wait(3)
    for (int i = 0; i < N; i++)
        a[i] = a[i] * 4 + 169;
#pragma acc wait
    CHECK_ALL(a, N, 2969);
}

// The host has waited for the first region, and not for all of its queue.
static void set_by_the_program(int other[N])
{
#pragma acc parallel loop copy(a) async(1)
    for (int i = 0; i < N; i++)
        a[i] = a[i] + 591;
#pragma acc wait(1) async(3)
#pragma acc parallel loop copy(other[0:N]) async(1)
    for (int i = 0; i < N; i++)
        other[i]++;
#pragma acc wait(3)
    CHECK_ALL(a, N, 591);
    for (int i = 0; i < N; i++)
        a[i] = 0;
#pragma acc parallel loop copy(a) async(1)
    for (int i = 0; i < N; i++)
        a[i] = a[i] * 4 + 169;
#pragma acc wait(1)
    CHECK_ALL(a, N, 169);
}

int main(void)
{
    int other[N] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++)
            a[i] = 0;
        if (round % 3 == 0)
            copied_out();
        else if (round % 3 == 1)
            copied_both_ways();
        else
            set_by_the_program(other);
    }
    CHECK_ALL(other, N, ROUNDS / 3);
    return pass();
}
