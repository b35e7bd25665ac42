// GCC maps a reference in a reduction and not what it names, where no clause does: the message says what to write.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/parallel \(message_reference\.cpp:\d+, .*add.*\).*it was given pointers that nothing maps: .*for a reference s of C\+\+ in a reduction copy\(s\) beside it/
#include "check.h"

static void add(double &s, int n)
{
#pragma acc parallel loop reduction(+ : s)
    for (int i = 0; i < n; i++)
        s += i;
}

int main()
{
    double sum = 1;
    add(sum, 10);
    printf("FAIL: the region ran\n");
    return sum != 46;
}
