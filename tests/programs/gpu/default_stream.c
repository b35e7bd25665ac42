// The program's own CUDA in the driver's default stream, between OpenACC's regions and copies, without a wait: each comes after the one
// before it, as with libgomp, whose synchronous operations use that stream and whose queues are ordered with it. Needs a GPU: run by
// gpu-check.
#include "gpu_raw.h"
#include <openacc.h>
#include <string.h>

#define CHECK(what, condition)                                          \
    do {                                                                \
        if (!(condition)) {                                             \
            printf("FAIL line %d: %s\n", __LINE__, what);               \
            wrong = 1;                                                  \
        }                                                               \
    } while (0)

/* Waits for some 20 ms, then adds one to each of n elements. */
static const char ptx[] = ".version 6.0\n.target sm_30\n.address_size 64\n"
                          ".visible .entry late (.param .u64 p, .param .u32 n)\n{\n.reg .u64 %a,%t,%u,%o; .reg .u32 %i,%n,%b,%d; .reg .f64 %x; .reg .pred %q;\n"
                          "mov.u64 %t,%globaltimer;\nagain:\nmov.u64 %u,%globaltimer;\nsub.u64 %u,%u,%t;\nsetp.lt.u64 %q,%u,20000000;\n@%q bra again;\n"
                          "mov.u32 %b,%ctaid.x;\nmov.u32 %d,%ntid.x;\nmov.u32 %i,%tid.x;\nmad.lo.u32 %i,%b,%d,%i;\nld.param.u32 %n,[n];\n"
                          "setp.ge.u32 %q,%i,%n;\n@%q bra end;\nld.param.u64 %a,[p];\nmul.wide.u32 %o,%i,8;\nadd.u64 %a,%a,%o;\n"
                          "ld.global.f64 %x,[%a];\nadd.f64 %x,%x,0d3ff0000000000000;\nst.global.f64 [%a],%x;\nend:\nret;\n}\n";

static raw_handle late;
static int wrong;

/* The program's kernel on a device array, in the default stream. */
static void add_late(double *device, unsigned n)
{
    void *parameters[] = { &device, &n };
    RAW(cuLaunchKernel, late, (n + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL);
}

static int all(const double *a, int n, double value)
{
    for (int i = 0; i < n; i++)
        if (a[i] != value)
            return 0;
    return 1;
}

static void fill(double *a, int n, double value)
{
    for (int i = 0; i < n; i++)
        a[i] = value;
}

static void order(double *a, int n)
{
    fill(a, n, 1);
#pragma acc enter data copyin(a[:n])
    double *device = acc_deviceptr(a);
    add_late(device, n);
#pragma acc exit data copyout(a[:n])
    CHECK("copyin, kernel, copyout", all(a, n, 2));

    fill(a, n, 1);
#pragma acc data copy(a[:n])
    {
        device = acc_deviceptr(a);
        add_late(device, n);
#pragma acc parallel loop present(a[:n])
        for (int i = 0; i < n; i++)
            a[i] *= 3;
        add_late(device, n);
#pragma acc update self(a[:n])
        CHECK("kernel, region, kernel, update self", all(a, n, 7));
        add_late(device, n);
        fill(a, n, 10);
#pragma acc update device(a[:n])
        add_late(device, n);
        acc_memcpy_from_device(a, device, n * sizeof *a);
        CHECK("kernel, update device, kernel, memcpy", all(a, n, 11));
        add_late(device, n);
        fill(a, n, 20);
        acc_memcpy_to_device(device, a, n * sizeof *a);
#pragma acc parallel loop present(a[:n]) async(1)
        for (int i = 0; i < n; i++)
            a[i] *= 2;
        add_late(device, n);
#pragma acc parallel loop present(a[:n]) async(1)
        for (int i = 0; i < n; i++)
            a[i] *= 2;
#pragma acc update self(a[:n]) async(1)
#pragma acc wait(1)
        CHECK("memcpy, queue, kernel, queue", all(a, n, 82));
        add_late(device, n);
    }
    CHECK("kernel, end of data", all(a, n, 83));
}

int main(void)
{
    int sizes[] = { 3, 1000, 1 << 22 };
    raw_handle module;
    acc_init(acc_device_nvidia);
    raw_load();
    RAW(cuCtxPushCurrent_v2, acc_get_current_cuda_context());
    RAW(cuModuleLoadData, &module, ptx);
    RAW(cuModuleGetFunction, &late, module, "late");
    for (int s = 0; s < 3; s++) {
        double *a = malloc(sizes[s] * sizeof *a);
        for (int k = 0; k < 3; k++)
            order(a, sizes[s]);
        free(a);
    }
    if (!wrong)
        puts("PASS");
    return wrong;
}
