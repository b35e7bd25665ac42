// atomic on a type without machine atomics: host code asks the library for its lock.
// BUILD offload=no
#include "check.h"

int main(void)
{
    long double x = 0;
    __int128 y = 1;
#pragma acc parallel loop copy(x, y)
    for (int i = 0; i < 30; i++) {
#pragma acc atomic update
        x += 1.5L;
#pragma acc atomic update
        y = y * 2;
    }
    CHECK(x == 45);
    CHECK(y == (__int128)1 << 30);
    return pass();
}
