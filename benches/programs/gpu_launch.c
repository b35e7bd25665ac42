/* What a launch costs: OpenACC's beside a raw cuLaunchKernel of an empty kernel, in one process. Their rounds
   alternate: a machine whose speed drifts drifts for all.
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_launch.c -ldl */
#include "gpu_raw.h"
#include <openacc.h>

enum { ROUNDS = 15, LAUNCHES = 2000, WAITS = 500, N = 1024 };

/* Stock libgomp lacks it; it fails where a context of the program's is current. */
extern void acc_memcpy_d2d(void *dst_host, void *src_host, size_t bytes, int dst_device, int src_device)
    __attribute__((weak));

static double a[N], b[N], c[N], d[N];
static raw_handle context, function, stream;

static void raw_async(void)
{
    unsigned long long zero = 0;
    void *parameters[] = { &zero };
    RAW(cuLaunchKernel, function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
}

static void raw_wait(void)
{
    RAW(cuStreamSynchronize, stream);
}

static void raw_launch(void)
{
    raw_async();
    raw_wait();
}

static void empty_async(void)
{
#pragma acc parallel num_gangs(1) async(1)
    {
    }
}

static void empty(void)
{
#pragma acc parallel num_gangs(1)
    {
    }
}

static void add_async(int n, double s)
{
#pragma acc parallel loop gang vector present(a, b, c, d) num_gangs(1) async(1)
    for (int i = 0; i < n; i++)
        a[i] = b[i] + s * c[i] + d[i];
}

static void add(int n, double s)
{
#pragma acc parallel loop gang vector present(a, b, c, d) num_gangs(1)
    for (int i = 0; i < n; i++)
        a[i] = b[i] + s * c[i] + d[i];
}

static void four_arrays_async(void)
{
    add_async(32, 0.5);
}

static void four_arrays(void)
{
    add(32, 0.5);
}

static void queue_wait(void)
{
#pragma acc wait(1)
}

static struct kind {
    const char *name;
    int current; /* with the program's context current */
    void (*enqueue)(void), (*wait)(void), (*launch)(void);
    double enqueued[ROUNDS], each[ROUNDS], waited[ROUNDS];
} kinds[] = { { "raw", 1, raw_async, raw_wait, raw_launch },
              { "empty region", 0, empty_async, queue_wait, empty },
              { "4 arrays and 2 scalars", 0, four_arrays_async, queue_wait, four_arrays },
              { "empty region, context current", 1, empty_async, queue_wait, empty },
              { "4 arrays and 2 scalars, context current", 1, four_arrays_async, queue_wait, four_arrays } };

/* One round; its times are kept unless it is to warm up. */
static void time_round(struct kind *kind, int r)
{
    raw_handle popped;
    if (kind->current)
        RAW(cuCtxPushCurrent_v2, context);
    double t0 = now_us();
    for (int i = 0; i < LAUNCHES; i++)
        kind->enqueue();
    double t1 = now_us();
    kind->wait();
    double t2 = now_us();
    for (int i = 0; i < WAITS; i++)
        kind->launch();
    double t3 = now_us();
    if (kind->current)
        RAW(cuCtxPopCurrent_v2, &popped);
    if (r >= 0)
        kind->enqueued[r] = (t1 - t0) / LAUNCHES, kind->each[r] = (t2 - t0) / LAUNCHES, kind->waited[r] = (t3 - t2) / WAITS;
}

int main(void)
{
    int count = acc_memcpy_d2d ? 5 : 3;
    raw_handle module, popped;
    raw_load();
    context = raw_context(0);
    RAW(cuModuleLoadData, &module, raw_ptx);
    RAW(cuModuleGetFunction, &function, module, "empty");
    RAW(cuStreamCreate, &stream, 1);
    RAW(cuCtxPopCurrent_v2, &popped);
#pragma acc data copyin(a, b, c, d)
    for (int r = -2; r < ROUNDS; r++)
        for (int k = 0; k < count; k++)
            time_round(&kinds[k], r);
    for (int k = 0; k < count; k++) {
        report(kinds[k].name, "enqueue", "us", kinds[k].enqueued, ROUNDS);
        report(kinds[k].name, "each of many", "us", kinds[k].each, ROUNDS);
        report(kinds[k].name, "launch and wait", "us", kinds[k].waited, ROUNDS);
    }
    return 0;
}
