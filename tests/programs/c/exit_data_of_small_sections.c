// exit data of eight bytes of an array, whatever these hold, is a section of the array and no member of a structure (2.6.6).
// EXPECT device-memory
#include "check.h"

/* Pairs of small integers are addresses of this process, as far as one can see, at which nothing is. */
static int pairs[8];
static struct { int head[2]; int tail[6]; } record;

int main(void)
{
    for (int i = 0; i < 8; i++)
        pairs[i] = 188;
#pragma acc enter data copyin(pairs)
#pragma acc parallel loop present(pairs)
    for (int i = 0; i < 8; i++)
        pairs[i] = 7;
#pragma acc exit data copyout(pairs[2:2])
    CHECK_EQ(pairs[1], 188);
    CHECK_EQ(pairs[2], 7);
    CHECK_EQ(pairs[3], 7);
    CHECK_EQ(pairs[4], 188);
    CHECK(!acc_is_present(pairs, sizeof pairs));

    pairs[4] = pairs[5] = 4711;
#pragma acc enter data copyin(pairs)
#pragma acc enter data copyin(pairs)
#pragma acc exit data delete(pairs[4:2])
    CHECK(acc_is_present(pairs, sizeof pairs));
#pragma acc exit data delete(pairs[4:2])
    CHECK(!acc_is_present(pairs, sizeof pairs));

    record.head[0] = record.head[1] = 99;
#pragma acc enter data copyin(record)
#pragma acc exit data delete(record.head)
    CHECK(!acc_is_present(&record, sizeof record));
    return pass();
}
