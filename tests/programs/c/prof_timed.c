// Five launches and five updates in a data region; tests/prof.rs looks at their times and notices.
// BUILD flags=-g
#include "check.h"

enum { N = 1000 };
static float field[N];

__attribute__((noinline)) static void step(void)
{
    /*
     * The line
     * of this
     * region
     * is
     * known.
     */
#pragma acc parallel loop present(field)
    for (int i = 0; i < N; i++)
        field[i] += 1;
}

int main(void)
{
    acc_init(acc_device_default);
#pragma acc data copyin(field)
    for (int k = 0; k < 5; k++) {
        step();
#pragma acc update self(field)
    }
    CHECK_ALL(field, N, 5);
    printf("PASS\n");
    return 0;
}
