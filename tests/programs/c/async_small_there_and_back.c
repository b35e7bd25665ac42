// A chain of regions changes a small variable and changes it back: the program has the last value after the wait, though that
// is what it had at each call.
#include "busy.h"
#include "check.h"

int main(void)
{
    int flag = 0;
    double values[4] = {1, 2, 3, 4};
    busy(1);
#pragma acc parallel copy(flag, values) async(1)
    {
        flag = 1;
        values[2] = -1;
    }
#pragma acc parallel copy(flag, values) async(1)
    {
        flag -= 1;
        values[2] += 4;
    }
#pragma acc wait(1)
    CHECK_EQ(flag, 0);
    CHECK_EQ(values[2], 3);

    busy(1);
#pragma acc parallel copy(flag) async(1)
    flag = 7;
#pragma acc wait(1) async(2)
#pragma acc parallel copy(flag) async(2)
    flag -= 7;
#pragma acc wait(2) async(3)
#pragma acc parallel copy(flag) async(3)
    flag *= 5;
#pragma acc wait(3)
    CHECK_EQ(flag, 0);

    /* A value that the program sets between calls begins a chain of its own. */
    for (int round = 0; round < 4; round++) {
        flag = round;
#pragma acc parallel copy(flag) async(1)
        flag += 1;
#pragma acc parallel copy(flag) async(1)
        flag -= 1;
#pragma acc wait(1)
        CHECK_EQ(flag, round);
    }
    return pass();
}
