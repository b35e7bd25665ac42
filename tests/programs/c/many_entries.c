// Thousands of present ranges, entered and left in different orders.
#include "check.h"

int main(void)
{
    enum { N = 5000, EACH = 3 };
    static int *p[N];
    for (int k = 0; k < N; k++) {
        p[k] = malloc(EACH * sizeof(int));
        p[k][0] = p[k][1] = p[k][2] = k;
        acc_copyin(p[k], EACH * sizeof(int));
    }
    for (int k = 0; k < N; k += 499) {
        int *q = p[k];
#pragma acc parallel present(q[0:3])
        q[1] = -k;
    }
    for (int k = 0; k < N; k++)
        CHECK_EQ(acc_is_present(p[(k * 7919) % N], EACH * sizeof(int)), 1);
    for (int k = N - 1; k >= 0; k--) {
        acc_copyout(p[k], EACH * sizeof(int));
        CHECK_EQ(p[k][1], k % 499 == 0 ? -k : k);
        CHECK_EQ(acc_is_present(p[k], EACH * sizeof(int)), WANT(0, 1));
        free(p[k]);
    }
    return pass();
}
