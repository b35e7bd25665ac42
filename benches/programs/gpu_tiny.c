/* 10,000 tiny regions in a row, one after the other on 1,024 elements, beside raw launches of a kernel that does the same: asynchronous
   ones until all are done, and ones that are each waited for.
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_tiny.c -ldl */
#include "gpu_raw.h"
#include <openacc.h>

enum { ROUNDS = 9, REGIONS = 10000, N = 1024, BLOCK = 128 };

static const char ptx[] = ".version 6.0\n.target sm_30\n.address_size 64\n"
                          ".visible .entry add (.param .u64 a, .param .u64 n, .param .f64 s)\n{\n"
                          ".reg .u64 %a, %n, %i;\n.reg .u32 %b, %t;\n.reg .f64 %x, %s;\n.reg .pred %over;\n"
                          "mov.u32 %b, %ctaid.x;\nmov.u32 %t, %tid.x;\nmad.lo.u32 %t, %b, 128, %t;\ncvt.u64.u32 %i, %t;\n"
                          "ld.param.u64 %n, [n];\nsetp.ge.u64 %over, %i, %n;\n@%over ret;\n"
                          "ld.param.u64 %a, [a];\nld.param.f64 %s, [s];\nshl.b64 %i, %i, 3;\nadd.u64 %a, %a, %i;\n"
                          "ld.global.f64 %x, [%a];\nadd.f64 %x, %x, %s;\nst.global.f64 [%a], %x;\nret;\n}\n";

static double a[N];
static raw_handle context, function, stream;
static raw_ptr raw_a;

static void by_hand(double s)
{
    unsigned long long n = N;
    void *parameters[] = { &raw_a, &n, &s };
    RAW(cuLaunchKernel, function, N / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, parameters, 0);
}

static void region(int queue, double s)
{
#pragma acc parallel loop present(a) async(queue)
    for (int i = 0; i < N; i++)
        a[i] += s;
}

enum { ASYNC, WAITED, WAYS };

/* Microseconds for each of all. */
static double all(int way, int hand)
{
    raw_handle popped;
    /* Stock libgomp launches nothing while the program's context is current. */
    if (hand)
        RAW(cuCtxPushCurrent_v2, context);
    double t = now_us();
    for (int i = 0; i < REGIONS; i++) {
        double s = i % 2 ? 1 : 0;
        if (hand)
            by_hand(s);
        else
            region(way == ASYNC ? 1 : acc_async_sync, s);
        if (hand && way == WAITED)
            RAW(cuStreamSynchronize, stream);
    }
    if (way == ASYNC) {
        if (hand)
            RAW(cuStreamSynchronize, stream);
        else
            acc_wait(1);
    }
    t = now_us() - t;
    if (hand)
        RAW(cuCtxPopCurrent_v2, &popped);
    return t / REGIONS;
}

int main(void)
{
    static const char *names[WAYS] = { "10,000 in a row, async", "10,000 in a row, each waited for" };
    double us[2][WAYS][ROUNDS];
    int here = raw_try_load(), rounds = 0;
#pragma acc enter data copyin(a)
    if (here) {
        raw_handle module;
        context = raw_context(0);
        here = context != 0;
        if (here) {
            RAW(cuModuleLoadData, &module, ptx);
            RAW(cuModuleGetFunction, &function, module, "add");
            RAW(cuStreamCreate, &stream, 1);
            RAW(cuMemAlloc_v2, &raw_a, sizeof a);
            RAW(cuCtxPopCurrent_v2, &module);
        }
    }
    /* By turns: a machine whose speed drifts drifts for both. */
    for (int r = -2; r < ROUNDS; r++, rounds++)
        for (int way = 0; way < WAYS; way++)
            for (int hand = 0; hand <= here; hand++) {
                double each = all(way, hand);
                if (r >= 0)
                    us[hand][way][r] = each;
            }
    for (int hand = 0; hand <= here; hand++)
        for (int way = 0; way < WAYS; way++)
            report(hand ? "raw" : "tiny regions", names[way], "us", us[hand][way], ROUNDS);
#pragma acc exit data copyout(a)
    int right = 1;
    for (int i = 0; i < N; i++)
        right &= a[i] == rounds * WAYS * (REGIONS / 2);
    printf("{\"bench\": \"tiny regions\", \"what\": \"right\", \"value\": %d}\n", right);
    return !right;
}
