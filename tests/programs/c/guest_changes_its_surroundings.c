// Another directory, an empty environment and a closed stdin before the first region.
#include "check.h"
#include <unistd.h>

int main(void)
{
    int a[10];
    CHECK_EQ(chdir("/"), 0);
    close(0);
    clearenv();
#pragma acc parallel loop copyout(a)
    for (int i = 0; i < 10; i++)
        a[i] = i;
    for (int i = 0; i < 10; i++)
        CHECK_EQ(a[i], i);
    return pass();
}
