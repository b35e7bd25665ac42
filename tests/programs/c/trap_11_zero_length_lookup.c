// A section of run-time length 0 is looked up by its first byte: inside a mapped block it is translated, elsewhere
// it is null on a device; one past the end counts as absent.
// EXPECT device-memory
#include "check.h"

static int is_null(int *p, int n)
{
    int null = -1;
#pragma acc parallel copyin(p[0:n]) copyout(null)
    null = p == 0;
    return null;
}

static int value_at(int *p, int n)
{
    int got = -1;
#pragma acc parallel copyin(p[0:n]) copyout(got)
    got = p[0];
    return got;
}

int main(void)
{
    int *a = malloc(10 * sizeof *a), other = 0;
    for (int i = 0; i < 10; i++)
        a[i] = 100 + i;
    CHECK(separate());
#pragma acc enter data copyin(a[0:10])
    a[0] = a[4] = -1;
    CHECK_EQ(value_at(a, 0), 100);
    CHECK_EQ(value_at(a + 4, 0), 104);
    CHECK_EQ(is_null(a + 10, 0), 1);
    CHECK_EQ(is_null(&other, 0), 1);
#pragma acc exit data delete(a[0:10])
    CHECK_EQ(is_null(a, 0), 1);
    return pass();
}
