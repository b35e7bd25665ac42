/* What a launch costs: OpenACC's beside a raw cuLaunchKernel of an empty kernel, in one process and run.
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_launch.c -ldl */
#include "gpu_raw.h"
#include <openacc.h>

enum { ROUNDS = 15, LAUNCHES = 2000, WAITS = 500, N = 1024 };

static double a[N], b[N], c[N], d[N];

static void empty_async(void)
{
#pragma acc parallel num_gangs(1) async(1)
    {
    }
}

static void four_arrays_async(int n, double s)
{
#pragma acc parallel loop gang vector present(a, b, c, d) num_gangs(1) async(1)
    for (int i = 0; i < n; i++)
        a[i] = b[i] + s * c[i] + d[i];
}

static void four_arrays(int n, double s)
{
#pragma acc parallel loop gang vector present(a, b, c, d) num_gangs(1)
    for (int i = 0; i < n; i++)
        a[i] = b[i] + s * c[i] + d[i];
}

int main(void)
{
    double enqueue[ROUNDS], whole[ROUNDS], wait[ROUNDS];
    raw_load();
    raw_handle context, module, function, stream;
    int device;
    RAW(cuDeviceGet, &device, 0);
    RAW(cuDevicePrimaryCtxRetain, &context, device);
    RAW(cuCtxPushCurrent_v2, context);
    RAW(cuModuleLoadData, &module, raw_ptx);
    RAW(cuModuleGetFunction, &function, module, "empty");
    RAW(cuStreamCreate, &stream, 1);
    unsigned long long zero = 0;
    void *parameters[] = { &zero };
    for (int r = -2; r < ROUNDS; r++) {
        double t0 = now_us();
        for (int i = 0; i < LAUNCHES; i++)
            RAW(cuLaunchKernel, function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
        double t1 = now_us();
        RAW(cuStreamSynchronize, stream);
        double t2 = now_us();
        for (int i = 0; i < WAITS; i++) {
            RAW(cuLaunchKernel, function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
            RAW(cuStreamSynchronize, stream);
        }
        double t3 = now_us();
        if (r >= 0)
            enqueue[r] = (t1 - t0) / LAUNCHES, whole[r] = (t2 - t0) / LAUNCHES, wait[r] = (t3 - t2) / WAITS;
    }
    report("raw", "enqueue", "us", enqueue, ROUNDS);
    report("raw", "each of many", "us", whole, ROUNDS);
    report("raw", "launch and wait", "us", wait, ROUNDS);
    raw_handle popped;
    RAW(cuCtxPopCurrent_v2, &popped);

    /* With the program's context current, and with none. */
    for (int current = 0; current < 2; current++) {
        if (current)
            RAW(cuCtxPushCurrent_v2, context);
        const char *names[] = { "empty region", "empty region, context current", "4 arrays and 2 scalars",
                                "4 arrays and 2 scalars, context current" };
#pragma acc data copyin(a, b, c, d)
        for (int kind = 0; kind < 2; kind++) {
            for (int r = -2; r < ROUNDS; r++) {
                double t0 = now_us();
                for (int i = 0; i < LAUNCHES; i++)
                    kind ? four_arrays_async(32, 0.5) : empty_async();
                double t1 = now_us();
#pragma acc wait(1)
                double t2 = now_us();
                for (int i = 0; i < WAITS; i++) {
                    if (kind) {
                        four_arrays(32, 0.5);
                    } else {
#pragma acc parallel num_gangs(1)
                        {
                        }
                    }
                }
                double t3 = now_us();
                if (r >= 0)
                    enqueue[r] = (t1 - t0) / LAUNCHES, whole[r] = (t2 - t0) / LAUNCHES, wait[r] = (t3 - t2) / WAITS;
            }
            char name[80];
            snprintf(name, sizeof name, "%s", names[2 * kind + current]);
            report(name, "enqueue", "us", enqueue, ROUNDS);
            report(name, "each of many", "us", whole, ROUNDS);
            report(name, "launch and wait", "us", wait, ROUNDS);
        }
    }
    return 0;
}
