// Routines on parts of what is present: addresses inside the block, copies of the part only.
#include "check.h"

int main(void)
{
    enum { N = 100 };
    int a[N];
    for (int i = 0; i < N; i++)
        a[i] = i;
    char *d = acc_copyin(a, sizeof a);
    CHECK((char *)acc_copyin(a + 5, 8) == d + 20);
    CHECK((char *)acc_create(a + 99, 4) == d + 396);
    CHECK((char *)acc_deviceptr(a + 50) == d + 200);
    CHECK(acc_hostptr(d + 200) == a + 50);
#pragma acc parallel loop present(a)
    for (int i = 0; i < N; i++)
        a[i] += 1000;
    acc_update_self(a + 10, 5 * sizeof *a);
    for (int i = 0; i < N; i++)
        CHECK_EQ(a[i], i + (i >= 10 && i < 15 ? 1000 : WANT(0, 1000)));
    acc_delete(a + 5, 8);
    acc_delete(a + 99, 4);
    CHECK_EQ(acc_is_present(a, sizeof a), 1);
    acc_copyout(a + 20, 10 * sizeof *a); /* the last reference: all goes, this part is copied */
    for (int i = 0; i < N; i++)
        CHECK_EQ(a[i], i + ((i >= 10 && i < 15) || (i >= 20 && i < 30) ? 1000 : WANT(0, 1000)));
    CHECK_EQ(acc_is_present(a, sizeof(int)), WANT(0, 1));
    return pass();
}
