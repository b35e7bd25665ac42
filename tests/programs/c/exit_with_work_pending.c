// A program that ends without waiting for its queues ends all the same, with its own status.
#include "check.h"

int main(void)
{
    enum { N = 1 << 20 };
    static int a[N];
#pragma acc enter data copyin(a)
    for (int k = 0; k < 50; k++) {
#pragma acc parallel loop present(a) async(k % 4)
        for (int i = 0; i < N; i++)
            a[i] += k;
#pragma acc update self(a) async(k % 4)
    }
    return pass();
}
