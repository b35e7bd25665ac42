// `attach` on a compute construct: attached for the region, and not counted after its end, so that an update of the
// object brings the program's pointer. An attachment of an enclosing data region stays (2.7.12).
// EXPECT device-memory
#include "check.h"

struct box {
    int *p;
    int n;
};

static void *on_device(struct box *b)
{
    void *cell = NULL;
    acc_update_device(b, sizeof *b);
    acc_memcpy_from_device(&cell, acc_deviceptr(&b->p), sizeof cell);
    return cell;
}

int main(void)
{
    static int x[4] = {5, 6, 7, 8}, room[8];
    static struct box b;
    CHECK(room[0] == 0);
    b.p = x;
    b.n = 4;
    acc_copyin(x, sizeof x);
    acc_copyin(&b, sizeof b);
    for (int k = 0; k < 3; k++) {
        int got = 0;
#pragma acc parallel attach(b.p) copyout(got)
        got = b.p[k];
        CHECK_EQ(got, 5 + k);
        CHECK(on_device(&b) == (void *)b.p);
#pragma acc serial attach(b.p) copyout(got) async(1)
        got = b.p[k];
#pragma acc wait(1)
        CHECK_EQ(got, 5 + k);
        CHECK(on_device(&b) == (void *)b.p);
    }
#pragma acc data attach(b.p)
    {
        CHECK(on_device(&b) == acc_deviceptr(x));
        int got = 0;
#pragma acc parallel attach(b.p) copyout(got)
        got = b.p[3];
        CHECK_EQ(got, 8);
        CHECK(on_device(&b) == acc_deviceptr(x));
    }
    CHECK(on_device(&b) == (void *)b.p);
    acc_delete(&b, sizeof b);
    acc_delete(x, sizeof x);
    return pass();
}
