// Reductions over as many gangs as the device takes, which all update one result (2.9.11), and atomic updates (2.12).
// Every operator and type, by gangs, workers and vector lanes; results that are exact in any order.
#include "check.h"
#include <complex.h>
#include <float.h>
#include <math.h>

enum { N = 150000, ROUNDS = 8, BINS = 7 };

static int *a;

#define PRAGMA(text) _Pragma(#text)
#define LOOP(directive, value, update)                                                                                \
    PRAGMA(directive)                                                                                                 \
    for (int i = 0; i < N; i++) {                                                                                     \
        __typeof__(s) v = (value);                                                                                    \
        update;                                                                                                       \
    }

#define SAME(what) (s == want ? (void)0 : check_failed(__FILE__, __LINE__, what))

/* All of `value`, an expression of a[i], by an operator: on the host, and at each level of parallelism. */
#define CASE(type, operator, start, value, update)                                                                    \
    {                                                                                                                 \
        type want = (start);                                                                                          \
        {                                                                                                             \
            type s = want;                                                                                            \
            for (int i = 0; i < N; i++) {                                                                             \
                type v = (value);                                                                                     \
                update;                                                                                               \
            }                                                                                                         \
            want = s;                                                                                                 \
        }                                                                                                             \
        type s = (start);                                                                                             \
        LOOP(acc parallel loop present(a[0:N]) async(1) reduction(operator: s), value, update)                        \
        PRAGMA(acc wait(1))                                                                                           \
        SAME(#type " " #operator " of " #value " over gangs");                                                        \
        s = (start);                                                                                                  \
        LOOP(acc parallel loop gang worker vector present(a[0:N]) reduction(operator: s), value, update)              \
        SAME(#type " " #operator " of " #value " over workers");                                                      \
        s = (start);                                                                                                  \
        LOOP(acc parallel loop vector_length(128) present(a[0:N]) reduction(operator: s), value, update)              \
        SAME(#type " " #operator " of " #value " over long vectors");                                                 \
    }

#define MAX s = v > s ? v : s
#define MIN s = v < s ? v : s
/* 1 nearly everywhere. */
#define FACTOR (a[i] % 15013 == 0 ? 2 : a[i] % 40009 == 0 ? -1 : 1)

/* `spread` makes values of all of the type's width. */
#define INTEGERS(type, spread, least)                                                                                 \
    CASE(type, +, 5, (type)(a[i] % 1000) * (spread), s += v)                                                          \
    CASE(type, *, 3, (type)FACTOR, s *= v)                                                                            \
    CASE(type, max, least, (type)(a[i] ^ 85) * (spread), MAX)                                                         \
    CASE(type, max, (type)N * (spread), (type)a[i] * (spread), MAX)                                                   \
    CASE(type, min, (type)N * (spread), (type)(a[i] ^ 85) * (spread), MIN)                                            \
    CASE(type, min, least, (type)a[i] * (spread), MIN)                                                                \
    CASE(type, &, ~(type)2, ~((type)(a[i] & 65604) * (spread)), s &= v)                                               \
    CASE(type, |, 1, (type)a[i] * (spread), s |= v)                                                                   \
    CASE(type, ^, 77, (type)(a[i] * 31) * (spread), s ^= v)                                                           \
    CASE(type, &&, 1, a[i] >= 0, s = s && v)                                                                          \
    CASE(type, &&, 1, a[i] != 4321, s = s && v)                                                                       \
    CASE(type, ||, 0, a[i] == 4321, s = s || v)                                                                       \
    CASE(type, ||, 0, a[i] < 0, s = s || v)

/* Sums that a float holds exactly. */
#define REALS(type, infinity)                                                                                         \
    CASE(type, +, 2.5, a[i] % 64 * (type)0.25 - 4, s += v)                                                            \
    CASE(type, *, -3, FACTOR, s *= v)                                                                                 \
    CASE(type, max, -1e9, (type)a[i] - 70000, MAX)                                                                    \
    CASE(type, max, 1e9, (type)a[i], MAX)                                                                             \
    CASE(type, min, 1e9, (type)a[i] - 70000, MIN)                                                                     \
    CASE(type, min, -1e9, (type)a[i], MIN)                                                                            \
    CASE(type, max, -infinity, -(type)a[i] - 1, MAX)                                                                  \
    CASE(type, min, infinity, (type)a[i] + 1, MIN)                                                                    \
    CASE(type, max, -infinity, -infinity, MAX)                                                                        \
    CASE(type, max, 0, a[i] == 4321 ? infinity : 1, MAX)                                                              \
    CASE(type, min, 0, a[i] == 4321 ? -infinity : 1, MIN)                                                             \
    CASE(type, max, -1, -(type)0, MAX)                                                                                \
    CASE(type, min, 1, -(type)0, MIN)                                                                                 \
    CASE(type, *, infinity, FACTOR, s *= v)                                                                           \
    CASE(type, *, 1, a[i] == 4321 ? 0 : 1, s *= v)                                                                    \
    CASE(type, +, 1, a[i] == 4321 ? infinity : 1, s += v)

static void integers(void)
{
    INTEGERS(int, 13, -1000000000)
    INTEGERS(unsigned, 28000, 0)
    INTEGERS(long, 50000000000, -1000000000000000000)
    INTEGERS(unsigned long, 120000000000000, 0)
}

/* GCC does these under a lock. On an H200 they did not end within 60 s, under whatever runtime. */
static void under_lock(void)
{
    CASE(short, +, 5, (short)(a[i] % 3 - 1), s += v)
    CASE(short, max, 0, (short)(a[i] % 30000), MAX)
    CASE(unsigned char, |, 2, (unsigned char)(a[i] & 64), s |= v)
    CASE(double _Complex, +, 1 + 2 * I, a[i] % 4 - a[i] % 8 * I, s += v)
}

/* By swaps of both parts. */
static void pairs(void)
{
    CASE(float _Complex, +, 1 + 2 * I, a[i] % 4 - a[i] % 8 * I, s += v)
}

static void reals(void)
{
    REALS(float, INFINITY)
    REALS(double, (double)INFINITY)
    /* Subnormal doubles are added exactly; floats may become zero on their way. */
    CASE(double, +, 0, 4.9406564584124654e-324, s += v)
    CASE(double, +, DBL_MIN, -4.9406564584124654e-324, s += v)
    CASE(double, max, 0, 4.9406564584124654e-324, MAX)
    CASE(double, +, -0.0, -0.0, s += v)
    double d = 0;
#pragma acc parallel loop present(a[0:N]) reduction(+ : d)
    for (int i = 0; i < N; i++)
        d += a[i] == 4321 ? NAN : 1;
    CHECK(isnan(d));
    float f = 0, least = FLT_MIN / 64;
#pragma acc parallel loop present(a[0:N]) reduction(+ : f)
    for (int i = 0; i < N; i++)
        f += a[i] < 32 ? least : 0;
    CHECK(f >= 0 && f <= 32 * least);
}

/* Several results at once, region after region, each going on from the one before. */
static void in_a_row(void)
{
    double sum = 3, low = 1e9;
    long high = -1, bits = 0;
    for (int round = 1; round <= ROUNDS; round++) {
#pragma acc parallel loop present(a[0:N]) reduction(+ : sum) reduction(min : low) reduction(max : high) reduction(^ : bits)
        for (int i = 0; i < N; i++) {
            sum += a[i] % 10 * 0.5;
            low = a[i] - round < low ? a[i] - round : low;
            high = a[i] * (long)round > high ? a[i] * (long)round : high;
            bits ^= (long)a[i] << 20;
        }
        long want = 0;
        for (int i = 0; i < N; i++)
            want ^= (long)i << 20;
        CHECK_EQ(sum, 3 + round * (N / 10 * 22.5));
        CHECK_EQ(low, -round);
        CHECK_EQ(high, (N - 1) * (long)round);
        CHECK_EQ(bits, round % 2 * want);
    }
}

/* Results that stay on the device, each updated by the regions of one queue, with nothing to wait for. */
#define IN_QUEUE(q, sum, low, count)                                                                                  \
    PRAGMA(acc parallel loop present(a[0:N], sum, low, count) async(q) reduction(+ : sum, count) reduction(min : low))\
    for (int i = 0; i < N; i++) {                                                                                     \
        sum += a[i] % (q + 2);                                                                                        \
        count += a[i] % 3 == 0;                                                                                       \
        low = low < -a[i] - q ? low : -a[i] - q;                                                                      \
    }

static void in_queues(void)
{
    double sum0 = 0, sum1 = 1, sum2 = 2, low0 = 0, low1 = 0, low2 = 0;
    long count0 = 0, count1 = 1, count2 = 2;
#pragma acc data copy(sum0, sum1, sum2, low0, low1, low2, count0, count1, count2)
    {
        for (int round = 0; round < ROUNDS; round++) {
            IN_QUEUE(0, sum0, low0, count0)
            IN_QUEUE(1, sum1, low1, count1)
            IN_QUEUE(2, sum2, low2, count2)
        }
#pragma acc wait
    }
    double sums[] = {sum0, sum1, sum2}, lows[] = {low0, low1, low2};
    long counts[] = {count0, count1, count2};
    for (int q = 0; q < 3; q++) {
        double sum = 0;
        for (int i = 0; i < N; i++)
            sum += i % (q + 2);
        CHECK_EQ(sums[q], q + ROUNDS * sum);
        CHECK_EQ(lows[q], -(N - 1) - q);
        CHECK_EQ(counts[q], q + ROUNDS * (N / 3));
    }
}

/* The same swaps without a reduction clause; what is captured must be what was there. */
static void atomics(void)
{
    double bins[BINS] = {0}, product = 1, tickets = 0;
    char *taken = calloc(N, 1);
#pragma acc parallel loop present(a[0:N]) copy(bins, product, tickets) copy(taken[0:N])
    for (int i = 0; i < N; i++) {
        double mine;
#pragma acc atomic update
        bins[a[i] % BINS] += 0.5;
#pragma acc atomic update
        product *= FACTOR;
#pragma acc atomic capture
        {
            mine = tickets;
            tickets += 1;
        }
        taken[(int)mine] = 1;
    }
    double want = 1;
    for (int i = 0; i < N; i++)
        want *= FACTOR;
    CHECK_EQ(product, want);
    CHECK_EQ(tickets, N);
    CHECK_ALL(taken, N, 1);
    for (int b = 0; b < BINS; b++)
        CHECK_EQ(bins[b], (N / BINS + (b < N % BINS)) * 0.5);
    free(taken);
}

int main(void)
{
    a = malloc(N * sizeof *a);
    for (int i = 0; i < N; i++)
        a[i] = i;
#pragma acc data copyin(a[0:N])
    {
        integers();
        pairs();
        if (acc_get_device_type() != acc_device_nvidia)
            under_lock();
        reals();
        in_a_row();
        in_queues();
        atomics();
    }
    free(a);
    return pass();
}
