// `copy`: in at entry, out at exit (OpenACC 3.3, 2.7.6).
// BUILD core
#include "check.h"

int main(void)
{
    int a[100], seen = 0;
    for (int i = 0; i < 100; i++)
        a[i] = i;
#pragma acc parallel loop copy(a) reduction(+ : seen)
    for (int i = 0; i < 100; i++) {
        seen += a[i];
        a[i] = 2 * i;
    }
    CHECK_EQ(seen, 4950);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(a[i], 2 * i);
    CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
    return pass();
}
