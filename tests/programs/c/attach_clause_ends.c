// An attach clause of a compute construct: at its end the device's pointer is the host's again, unless others hold it (2.7.2, 2.7.12).
#include "check.h"
#include <stdint.h>

struct s { int n; int *p; };

static uintptr_t on_device(struct s *t)
{
    uintptr_t value = 0;
#pragma acc parallel present(t[0:1]) copyout(value)
    value = (uintptr_t)t->p;
    return value;
}

int main(void)
{
    static int x[10], y[4];
    struct s t = {10, x};
#pragma acc enter data copyin(t, x)
    for (int round = 1; round <= 3; round++) {
#pragma acc parallel loop attach(t.p)
        for (int i = 0; i < 10; i++)
            t.p[i] += 1;
        CHECK(on_device(&t) == (uintptr_t)x);
#pragma acc parallel loop attach(t.p) copyin(y) async(1)
        for (int i = 0; i < 4; i++)
            t.p[i] += y[i];
#pragma acc wait(1)
        CHECK(on_device(&t) == (uintptr_t)x);
    }
    /* Held by others, it stays. */
#pragma acc enter data attach(t.p)
#pragma acc parallel loop attach(t.p)
    for (int i = 0; i < 10; i++)
        t.p[i] += 1;
#pragma acc parallel loop present(t)
    for (int i = 0; i < 10; i++)
        t.p[i] += 1;
    if (separate())
        CHECK(on_device(&t) == (uintptr_t)acc_deviceptr(x));
#pragma acc exit data detach(t.p)
    CHECK(on_device(&t) == (uintptr_t)x);
    /* Brought along with a copy out of what holds it. */
#pragma acc data copy(t)
#pragma acc parallel loop attach(t.p)
    for (int i = 0; i < 10; i++)
        t.p[i] += 1;
    CHECK(t.p == x);
#pragma acc exit data copyout(x) delete(t)
    for (int i = 0; i < 10; i++)
        CHECK_EQ(x[i], 6);
    return pass();
}
