// Declare variables that lie next to each other, over pages that they share with others and with ordinary variables:
// large and small ones, initialized and not, at odd addresses, constant ones, and those of a shared object (2.13).
// BUILD core
// BUILD plugin=declared.c
#include "check.h"
#include <dlfcn.h>

enum { N = 9001 };

/* .bss: each ends within a page in which the next begins. */
double a[1300], b[1300], c[1300];
char odd[4097], small = 0, odd2[12301];
int ordinary[700];
static short s1[5000], s2[5000];
#pragma acc declare create(a, b, c, odd, small, odd2)
#pragma acc declare create(s1, s2)

/* .data */
int first[N] = {1, 2, 3}, second[N] = {4, 5, 6}, third = 7;
static long kept = 11;
#pragma acc declare copyin(first, second, third)

/* .rodata, and constants that hold addresses: .data.rel.ro */
static const double weights[2000] = {0.5, 1.5, 2.5};
static const int scale = 3;
static const char *const names[2] = {"one", "three"};
#pragma acc declare copyin(weights, scale, names)

static void doubles(double *p, int n, double from)
{
    /* Whole, one after the other, backwards: the order in which pages become the device's must not matter. */
    for (int i = 0; i < n; i++)
        p[i] = from + i;
    acc_update_device(p, n * sizeof *p);
    for (int i = 0; i < n; i++)
        p[i] = -1;
    acc_update_self(p, n * sizeof *p);
    for (int i = 0; i < n; i++)
        CHECK_EQ(p[i], WANT(from + i, -1));
}

static void bytes(char *p, int n, int from)
{
    for (int i = 0; i < n; i++)
        p[i] = (char)(from + i);
    acc_update_device(p, n);
    memset(p, 0, n);
    acc_update_self(p, n);
    for (int i = 0; i < n; i++)
        CHECK_EQ(p[i], WANT((char)(from + i), 0));
}

int main(int argc, char **argv)
{
    double sum = 0;
    CHECK(argc > 1);
    for (int i = 0; i < 700; i++)
        ordinary[i] = i;

    /* b is in the middle; its neighbours become the device's after and before it. */
    doubles(c, 1300, 100);
    doubles(a, 1300, 200);
    doubles(b, 1300, 300);
    bytes(odd2, sizeof odd2, 3);
    bytes(odd, sizeof odd, 5);
    bytes(&small, 1, 7);

#pragma acc parallel loop
    for (int i = 0; i < 1300; i++) {
        a[i] = i;
        b[i] = 2 * i;
        c[i] = 3 * i;
    }
#pragma acc parallel loop
    for (int i = 0; i < 5000; i++) {
        s1[i] = (short)i;
        s2[i] = (short)-i;
    }
#pragma acc update self(a[0:1300], b[0:1300], c[0:1300], s1[0:5000], s2[0:5000])
    for (int i = 0; i < 1300; i++) {
        CHECK_EQ(a[i], i);
        CHECK_EQ(b[i], 2 * i);
        CHECK_EQ(c[i], 3 * i);
    }
    for (int i = 0; i < 5000; i++) {
        CHECK_EQ(s1[i], i);
        CHECK_EQ(s2[i], -i);
    }

    /* From one to another on the device, over the borders of pages. */
#pragma acc parallel loop
    for (int i = 0; i < N; i++) {
        first[i] += i;
        second[i] += third * first[i];
    }
#pragma acc update self(first[1:N - 2], second[N / 2:N / 4]) async(1)
#pragma acc update self(first[0:1]) async(2)
#pragma acc wait
#pragma acc update self(first[N - 1:1])
    for (int i = 0; i < N; i++)
        CHECK_EQ(first[i], i + (i < 3 ? i + 1 : 0));
    for (int i = N / 2; i < N / 2 + N / 4; i++)
        CHECK_EQ(second[i], 7 * i);

    /* From device to device. */
    if (acc_memcpy_d2d && device_count() > 1) {
        int here = acc_get_device_num(device_type()), there = (here + 1) % device_count();
        doubles(b, 1300, 400);
        acc_memcpy_d2d(b, b, sizeof b, there, here);
        memset(b, 0, sizeof b);
        acc_set_device_num(there, device_type());
        acc_update_self(b, sizeof b);
        acc_set_device_num(here, device_type());
        for (int i = 0; i < 1300; i++)
            CHECK_EQ(b[i], 400 + i);
    }

    /* Constants. */
#pragma acc parallel copyout(sum)
    {
        sum = 0;
        for (int i = 0; i < 2000; i++)
            sum += weights[i];
        sum *= scale;
    }
    CHECK_EQ(sum, 13.5);
    /* GPUs keep constants too, and what writes one's own value there does no harm. */
    acc_update_device((void *)weights, sizeof weights);
    acc_update_device((void *)&scale, sizeof scale);
    CHECK_EQ(acc_is_present((void *)weights, sizeof weights), 1);
    CHECK_EQ(acc_is_present((void *)names, sizeof names), 1);

    /* What is no declare variable keeps its value beside those that are. */
    CHECK_EQ(kept, 11);
    for (int i = 0; i < 700; i++)
        CHECK_EQ(ordinary[i], i);

    /* A shared object's. */
    void *object = dlopen(argv[1], RTLD_NOW);
    CHECK(object != NULL);
    int (*run)(void) = (int (*)(void))dlsym(object, "declared");
    CHECK(run != NULL);
    CHECK_EQ(run(), 0);
    return pass();
}
