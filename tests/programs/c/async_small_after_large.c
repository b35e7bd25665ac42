// A small variable that two queues change, one after the other, while the second is still busy with a large copy: the later value
// stays.
#include "check.h"

enum { N = 200000 };
static double large[N];

int main(void)
{
    for (int round = 0; round < 20; round++) {
        int small[8] = {0}, one = 0;
        for (int i = 0; i < N; i++)
            large[i] = round + i;
#pragma acc parallel loop copy(small) async(1)
        for (int i = 0; i < 8; i++)
            small[i] = small[i] * 2 + 858;
#pragma acc parallel copy(one) async(1)
        one = one * 2 + 858;
#pragma acc parallel loop copy(large) async(2)
        for (int i = 0; i < N; i++)
            large[i] += 0.5;
#pragma acc wait(1) async(2)
#pragma acc parallel loop copy(small) async(2)
        for (int i = 0; i < 8; i++)
            small[i] = small[i] * 2 + 986;
#pragma acc parallel copy(one) async(2)
        one = one * 2 + 986;
        if (round % 2) {
#pragma acc wait(2)
        } else {
#pragma acc wait
        }
        for (int i = 0; i < 8; i++)
            CHECK_EQ(small[i], 2702);
        CHECK_EQ(one, 2702);
        for (int i = 0; i < N; i++)
            CHECK_EQ(large[i], round + i + 0.5);
    }
    return pass();
}
