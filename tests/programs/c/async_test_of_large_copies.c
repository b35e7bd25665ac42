// Copies out of several queues are under way; one is waited for, the others are only asked about. They come to their ends by themselves.
#include "check.h"

enum { N = 150000, QUEUES = 3, ROUNDS = 300 };
static int a[QUEUES][N];

int main(void)
{
    int is_separate = separate();
#pragma acc enter data create(a)
    for (int round = 1; round <= ROUNDS; round++) {
        for (int q = 0; q < QUEUES; q++)
            a[q][0] = a[q][N - 1] = round + q;
#pragma acc update device(a)
        for (int q = 0; q < QUEUES; q++) {
            if (is_separate)
                a[q][0] = a[q][N - 1] = -1;
#pragma acc update host(a[q][0:N]) async(q)
        }
#pragma acc wait(1)
        for (int q = 0; q < QUEUES; q++) {
            while (!acc_async_test(q))
                ;
            CHECK_EQ(a[q][0], round + q);
            CHECK_EQ(a[q][N - 1], round + q);
        }
    }
#pragma acc exit data delete(a)
    return pass();
}
