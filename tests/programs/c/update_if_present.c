// if_present: an update of absent data does nothing (2.14.4).
#include "check.h"

int main(void)
{
    int n = 10, *p = malloc(n * sizeof *p);
    for (int i = 0; i < n; i++)
        p[i] = i;
#pragma acc update self(p[0:n]) if_present
#pragma acc update device(p[0:n]) if_present
    for (int i = 0; i < n; i++)
        CHECK_EQ(p[i], i);
#pragma acc enter data create(p[0:n])
#pragma acc update device(p[0:n]) if_present
    for (int i = 0; i < n; i++)
        p[i] = 0;
#pragma acc update self(p[0:n]) if_present
    for (int i = 0; i < n; i++)
        CHECK_EQ(p[i], WANT(i, 0));
#pragma acc exit data delete(p[0:n])
    return pass();
}
