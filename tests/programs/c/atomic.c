// atomic read, write, update and capture (2.12).
#include "check.h"

int main(void)
{
    int count = 0, tickets[50], last = -1, seen = 0;
    float f = 0;
#pragma acc parallel loop copy(count, f) copyout(tickets)
    for (int i = 0; i < 50; i++) {
        int mine;
#pragma acc atomic capture
        mine = count++;
        tickets[i] = mine;
#pragma acc atomic update
        f += 0.5f;
    }
    CHECK_EQ(count, 50);
    CHECK_EQ(f, 25);
    int used[50] = {0};
    for (int i = 0; i < 50; i++)
        used[tickets[i]]++;
    CHECK_ALL(used, 50, 1);
#pragma acc parallel copy(last, seen)
    {
#pragma acc atomic write
        last = 7;
#pragma acc atomic read
        seen = last;
    }
    CHECK_EQ(seen, 7);
    return pass();
}
