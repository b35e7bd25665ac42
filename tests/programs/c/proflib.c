// A profiling library by ACC_PROFLIB: loaded, registered with, called, in the program only (5.3).
// BUILD plugin=proflib.c
// RUN env=ACC_PROFLIB={plugin}
// EXPECT stdout=/proflib: 3 compute constructs, 1 updates/
#include "check.h"

int main(void)
{
    int a[10] = {0};
#pragma acc data copy(a)
    {
        for (int k = 0; k < 3; k++) {
#pragma acc parallel loop present(a)
            for (int i = 0; i < 10; i++)
                a[i]++;
        }
#pragma acc update self(a)
    }
    CHECK_ALL(a, 10, 3);
    printf("PASS\n");
    return 0;
}
