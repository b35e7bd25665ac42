/* Regions for 65,536 gangs, whose number the image can't say. From most GCC removes the loop: each gang updates the result by a constant. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef RECORDER
#include RECORDER
#endif

enum { N = 250000, GANGS = 65536 };

#define PRAGMA(text) _Pragma(#text)
/* Of a result by an operator, over gangs and the threads of long vectors. */
#define SAME(number, type, operator, start, update)                                                                   \
    void region_##number(void)                                                                                        \
    {                                                                                                                 \
        type s = (start);                                                                                             \
        PRAGMA(acc parallel loop num_gangs(GANGS) reduction(operator: s))                                             \
        for (int i = 0; i < N; i++)                                                                                   \
            update;                                                                                                   \
    }                                                                                                                 \
    void region_##number##_long(void)                                                                                 \
    {                                                                                                                 \
        type s = (start);                                                                                             \
        PRAGMA(acc parallel loop num_gangs(GANGS) vector_length(64) reduction(operator: s))                           \
        for (int i = 0; i < N; i++)                                                                                   \
            update;                                                                                                   \
    }

#define MAX(value) s = s > (value) ? s : (value)
#define MIN(value) s = s < (value) ? s : (value)

SAME(0, float, +, -0.0f, s += -0.0f)
SAME(1, double, +, 3, s += -0.0)
SAME(2, double, *, 3, s *= 1)
SAME(3, float, max, -INFINITY, MAX(-INFINITY))
SAME(4, double, max, 1, MAX(-INFINITY))
SAME(5, double, min, 1, MIN(INFINITY))
SAME(6, int, +, 4, s += 0)
SAME(7, long, ^, 4, s ^= 0)

/* What follows counts on its number of gangs. */
void counts_0(void)
{
    double s = 2;
#pragma acc parallel loop gang num_gangs(GANGS) reduction(+ : s)
    for (int i = 0; i < GANGS; i++)
        s += 1;
}

void counts_1(void)
{
    int count = 0;
#pragma acc parallel num_gangs(GANGS) copy(count)
    {
#pragma acc atomic
        count++;
    }
}

void counts_2(void)
{
    double sum = 0;
#pragma acc parallel num_gangs(GANGS) copy(sum)
    {
#pragma acc atomic
        sum += 0.5;
    }
}

void counts_3(void)
{
    int bits = 1;
#pragma acc parallel loop gang num_gangs(GANGS) reduction(^ : bits)
    for (int i = 0; i < GANGS; i++)
        bits ^= 6;
}

void counts_4(void)
{
    double product = 1;
#pragma acc parallel loop gang vector_length(64) num_gangs(GANGS) reduction(* : product)
    for (int i = 0; i < GANGS; i++)
        product *= 1.5;
}

void counts_5(void)
{
    int tickets[64] = { 0 }, next = 0;
#pragma acc parallel num_gangs(GANGS) copy(tickets, next)
    {
        int mine;
#pragma acc atomic capture
        {
            mine = next;
            next += 1;
        }
        tickets[mine & 63] = 1;
    }
}

int main(void)
{
#define RUN(number) region_##number(), region_##number##_long();
    counts_0(), counts_1(), counts_2(), counts_3(), counts_4(), counts_5();
    RUN(0) RUN(1) RUN(2) RUN(3) RUN(4) RUN(5) RUN(6) RUN(7)
    return 0;
}
