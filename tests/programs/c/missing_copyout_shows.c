// A forgotten copy clause must show, as it would on a GPU: this program is wrong on purpose.
// EXPECT device-memory
#include "check.h"

int main(void)
{
    int a[10] = {0}, b[10];
    for (int i = 0; i < 10; i++)
        b[i] = 5;
#pragma acc enter data copyin(a, b)
    for (int i = 0; i < 10; i++)
        b[i] = 6; /* no update device */
#pragma acc parallel loop present(a, b)
    for (int i = 0; i < 10; i++)
        a[i] = b[i];
    CHECK_ALL(a, 10, 0); /* no update self */
#pragma acc exit data copyout(a) delete(b)
    CHECK_ALL(a, 10, 5);
    return pass();
}
