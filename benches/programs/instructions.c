// Small operations in steady state, for scripts/count-instructions: `instructions WHAT COUNT`.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 64, BETWEEN_WAITS = 50 };
static double a[LENGTH], b[LENGTH], c[LENGTH], d[LENGTH];

static void empty(int i)
{
#pragma acc parallel async(1) num_gangs(1)
    {
    }
    if (i % BETWEEN_WAITS == BETWEEN_WAITS - 1)
        acc_wait(1);
}

static void arrays(int i)
{
#pragma acc parallel async(1) num_gangs(1) present(a, b, c, d)
    {
        a[0] = b[0] + c[0] + d[0];
    }
    if (i % BETWEEN_WAITS == BETWEEN_WAITS - 1)
        acc_wait(1);
}

static void waited(int i)
{
    (void)i;
#pragma acc parallel num_gangs(1)
    {
    }
}

static void update_device(int i)
{
    (void)i;
#pragma acc update device(a[0 : 1])
}

static void update_self(int i)
{
    (void)i;
#pragma acc update self(a[0 : 1])
}

static void *from, *to;
static int num;
// GCC 12's library has no such function to link with.
static void (*copy)(void *, void *, size_t, int, int);

static void d2d(int i)
{
    (void)i;
    copy(to, from, 8, num, num);
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*once)(int);
    } all[] = {{"empty", empty},     {"arrays", arrays}, {"waited", waited}, {"device", update_device},
               {"self", update_self}, {"d2d", d2d}};
    int times = count == 3 ? atoi(arguments[2]) : 0;
#pragma acc enter data create(a, b, c, d)
    num = acc_get_device_num(acc_get_device_type());
    from = acc_malloc(8);
    to = acc_malloc(8);
    copy = (void (*)(void *, void *, size_t, int, int))dlsym(RTLD_DEFAULT, "acc_memcpy_d2d");
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        if (count == 3 && strcmp(arguments[1], all[k].name) == 0)
            for (int i = 0; i < times; i++)
                all[k].once(i);
    acc_wait_all();
    return 0;
}
