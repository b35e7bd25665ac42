// Scalars in kernels are mapped with a forcing kind; when they are present already they are just used.
#include "check.h"

static int s, t;

static void use(void)
{
#pragma acc kernels
    {
        s += 1;
        t = s * 2;
    }
}

int main(void)
{
    s = 5;
#pragma acc enter data copyin(s, t)
    use();
    use();
    CHECK_EQ(s, WANT(5, 7));
#pragma acc exit data copyout(s, t)
    CHECK_EQ(s, 7);
    CHECK_EQ(t, 14);
    use();
    CHECK_EQ(s, 8);
    CHECK_EQ(t, 16);
    return pass();
}
