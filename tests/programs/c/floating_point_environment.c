// A region on a CPU device runs in the floating-point control state of the thread that launches it: rounding, flush-to-zero, and masks of
// exceptions hold as on the host, for synchronous and asynchronous launches, and of each launch anew.
// BUILD offload=no
// BUILD flags=-lm
#include "check.h"
#include <fenv.h>

enum { QUOTIENT, SMALL, LONG, RESULTS };

/* Sets flush-to-zero, where it is known how. */
static int flush_to_zero(int on)
{
#if defined(__x86_64__)
    unsigned csr = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(on ? csr | 0x8040 : csr & ~0x8040);
    return 1;
#elif defined(__aarch64__)
    unsigned long fpcr = __builtin_aarch64_get_fpcr();
    __builtin_aarch64_set_fpcr(on ? fpcr | 1 << 24 : fpcr & ~(1 << 24));
    return 1;
#else
    return 0;
#endif
}

static void on_device(double *r, int queue)
{
    double x[4] = {1, 3, 1e-300, 1e-10};
#pragma acc parallel copyin(x) copyout(r[0:RESULTS]) async(queue)
    {
        r[QUOTIENT] = x[0] / x[1];
        r[SMALL] = x[2] * x[3];
        r[LONG] = (double)((long double)x[0] / x[1]);
    }
#pragma acc wait
}

static void on_host(double *r)
{
    volatile double x[4] = {1, 3, 1e-300, 1e-10};
    r[QUOTIENT] = x[0] / x[1];
    r[SMALL] = x[2] * x[3];
    volatile long double quotient = (long double)x[0] / x[1];
    r[LONG] = (double)quotient;
}

static void same(double *device)
{
    for (int queue = acc_async_sync; queue < 3; queue++) {
        double host[RESULTS];
        on_device(device, queue);
        on_host(host);
        for (int i = 0; i < RESULTS; i++)
            CHECK_EQ(device[i], host[i]);
    }
}

int main(void)
{
    double nearest[RESULTS], other[RESULTS];
    same(nearest);
    const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    for (int i = 0; i < 3; i++) {
        fesetround(modes[i]);
        same(other);
        CHECK_EQ(fegetround(), modes[i]);
    }
    fesetround(FE_UPWARD);
    same(other);
    CHECK(other[QUOTIENT] > nearest[QUOTIENT]);
    fesetround(FE_TONEAREST);
    same(other);
    CHECK_EQ(other[QUOTIENT], nearest[QUOTIENT]);
    CHECK(other[SMALL] > 0);
    if (flush_to_zero(1)) {
        same(other);
        CHECK_EQ(other[SMALL], 0);
        flush_to_zero(0);
    }
    same(other);
    CHECK(other[SMALL] > 0);

    /* What a region changes itself holds for that region. */
    int changed;
#pragma acc parallel copyout(changed)
    changed = fesetround(FE_DOWNWARD);
    CHECK_EQ(changed, 0);
    fesetround(FE_TONEAREST);
    same(other);
    CHECK_EQ(other[QUOTIENT], nearest[QUOTIENT]);
    return pass();
}
