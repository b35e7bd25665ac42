// Scalars of an async region are compiler temporaries on the stack, whose addresses the next
// construct uses again: it must not find them present.
// BUILD core
#include "check.h"

enum { N = 300 };
static int out[N];

static void store(int at, int value)
{
#pragma acc parallel present(out) async(1)
    out[at] = value;
}

int main(void)
{
#pragma acc enter data create(out)
    for (int k = 0; k < N; k++)
        store(k, 7 * k);
    for (int k = 0; k < N; k += 2) {
        int a = k, b = 1000 + k;
#pragma acc parallel present(out) async(k % 3)
        out[a] = b;
    }
#pragma acc wait
#pragma acc exit data copyout(out)
    for (int k = 1; k < N; k += 2)
        CHECK_EQ(out[k], 7 * k);
    for (int k = 0; k < N; k += 2)
        CHECK(out[k] == 1000 + k || out[k] == 7 * k); /* queues 0, 1, 2 are not ordered among themselves */
    return pass();
}
