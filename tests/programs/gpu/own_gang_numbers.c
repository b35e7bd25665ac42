// What a region does with its gang's number says nothing of how many gangs it has: those of the clause run (2.5.10).
#include "check.h"

#define GANGS 32

int main(void)
{
    int ids[64], n = 0, high = 0, blocks = 0;
    for (int i = 0; i < 64; i++)
        ids[i] = -1;
#pragma acc parallel num_gangs(GANGS) copy(ids, n)
    {
        int g = __builtin_goacc_parlevel_id(0);
        if (g < 64)
            ids[g] = g;
#pragma acc atomic
        n++;
    }
    CHECK_EQ(n, GANGS);
    for (int i = 0; i < 64; i++)
        CHECK_EQ(ids[i], i < GANGS ? i : -1);
#pragma acc parallel num_gangs(GANGS) copy(high)
    {
        int g = __builtin_goacc_parlevel_id(0);
        if (g >= 100000 || 3 * g + 5 > 500000) {
#pragma acc atomic
            high++;
        }
    }
    CHECK_EQ(high, 0);
#pragma acc parallel num_gangs(GANGS) copy(blocks)
    {
        int first = __builtin_goacc_parlevel_id(0) * 100, end = first + 100 < 500000 ? first + 100 : 500000;
        for (int i = first; i < end; i++) {
#pragma acc atomic
            blocks++;
        }
    }
    CHECK_EQ(blocks, 100 * GANGS);
    // The launch has the number, whatever the code divides by.
    int gangs = 7, word = 5 << 16;
    n = 0;
#pragma acc parallel num_gangs(gangs) copy(n)
    {
        if (__builtin_goacc_parlevel_id(0) < word >> 16) {
#pragma acc atomic
            n++;
        }
    }
    CHECK_EQ(n, 5);
    return pass();
}
