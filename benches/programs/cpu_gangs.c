/* What a CPU device would gain by all cores: the rows of a Mandelbrot set by a region on one device, which is one core, and by a translation of
   its GPU code to C, written by hand, whose gangs are shared out to threads. That is what a just-in-time compiler would have to make of the PTX,
   compiled by GCC: an upper limit, not a measurement of such a compiler.
   gcc -O2 -fopenacc -foffload=nvptx-none -pthread cpu_gangs.c, and ACC_DEVICE_TYPE=cpu accord run -- ./a.out [THREADS] */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 2048, LIMIT = 250, GANGS = 8192, LANES = 32, ROUNDS = 3 };

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

#pragma acc routine seq
static unsigned char point(long i)
{
    double x = (i % SIDE) * 3.0 / SIDE - 2, y = (i / SIDE) * 3.0 / SIDE - 1.5, a = 0, b = 0;
    int n = 0;
    while (n < LIMIT && a * a + b * b < 4) {
        double next = a * a - b * b + x;
        b = 2 * a * b + y;
        a = next;
        n++;
    }
    return (unsigned char)n;
}

static void by_region(unsigned char *picture)
{
#pragma acc parallel loop present(picture[0:SIDE * SIDE])
    for (long i = 0; i < SIDE * SIDE; i++)
        picture[i] = point(i);
}

/* The kernel that GCC writes for that loop: gang and lane have a part of the iterations, 32 apart. The lanes need nothing of each other here, so
   one follows the other. */
static void gang(unsigned char *picture, long number, long gangs)
{
    const long n = (long)SIDE * SIDE, rounds = (n + gangs * LANES - 1) / (gangs * LANES);
    for (long lane = 0; lane < LANES; lane++) {
        long from = number * rounds * LANES + lane, end = from - lane + rounds * LANES;
        for (long i = from; i < (end < n ? end : n); i += LANES)
            picture[i] = point(i);
    }
}

static unsigned char *out;
static atomic_long next_gang;

static void *core(void *unused)
{
    for (long number; (number = next_gang++) < GANGS;)
        gang(out, number, GANGS);
    return unused;
}

static void by_threads(unsigned char *picture, int threads)
{
    pthread_t started[256];
    out = picture, next_gang = 0;
    for (int i = 1; i < threads; i++)
        pthread_create(&started[i], 0, core, 0);
    core(0);
    for (int i = 1; i < threads; i++)
        pthread_join(started[i], 0);
}

int main(int argc, char **argv)
{
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    int most = argc > 1 ? atoi(argv[1]) : CPU_COUNT(&cpus), right = 1;
    unsigned char *picture = malloc(SIDE * SIDE), *other = malloc(SIDE * SIDE);
    double ms[ROUNDS];
#pragma acc enter data create(picture[0:SIDE * SIDE])
    for (int r = -1; r < ROUNDS; r++) {
        double t = now_ms();
        by_region(picture);
        if (r >= 0)
            ms[r] = now_ms() - t;
    }
#pragma acc exit data copyout(picture[0:SIDE * SIDE])
    qsort(ms, ROUNDS, sizeof *ms, by_value);
    printf("{\"bench\": \"cpu gangs\", \"what\": \"region\", \"unit\": \"ms\", \"median\": %.4g}\n", ms[ROUNDS / 2]);
    for (int threads = 1; threads <= most && threads <= 256; threads *= 2) {
        for (int r = -1; r < ROUNDS; r++) {
            memset(other, 0, SIDE * SIDE);
            double t = now_ms();
            by_threads(other, threads);
            if (r >= 0)
                ms[r] = now_ms() - t;
        }
        right &= !memcmp(picture, other, SIDE * SIDE);
        qsort(ms, ROUNDS, sizeof *ms, by_value);
        printf("{\"bench\": \"cpu gangs\", \"what\": \"translated, %d threads\", \"unit\": \"ms\", \"median\": %.4g}\n", threads,
               ms[ROUNDS / 2]);
    }
    printf("{\"bench\": \"cpu gangs\", \"what\": \"right\", \"value\": %d}\n", right);
    return !right;
}
