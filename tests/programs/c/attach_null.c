// Attaching a pointer that is NULL: it is NULL on the device too, whatever was there, and nothing is counted (2.7.2).
// EXPECT device-memory
#include "check.h"

struct list {
    int *values;
    int n;
};

static int seen(struct list *l)
{
    int got = -1;
#pragma acc parallel present(l[0:1]) copyout(got)
    got = l->values ? l->values[1] : 0;
    return got;
}

int main(void)
{
    static int x[4] = {1, 2, 3, 4}, room[8];
    static struct list l;
    CHECK(room[0] == 0);
    l.values = NULL;
    l.n = 4;
    acc_copyin(x, sizeof x);
    acc_create(&l, sizeof l); /* its bytes on the device are anything */
    acc_attach((void **)&l.values);
    CHECK_EQ(seen(&l), 0);
    l.values = x;
    acc_attach((void **)&l.values);
    CHECK_EQ(seen(&l), 2);
    l.values = NULL;
    acc_attach((void **)&l.values);
    CHECK_EQ(seen(&l), 0);
    acc_detach((void **)&l.values);
    l.values = x;
#pragma acc enter data attach(l.values)
    CHECK_EQ(seen(&l), 2);
#pragma acc exit data detach(l.values)
    /* Not attached any more: the device has the program's value. */
    void *cell = NULL;
    acc_memcpy_from_device(&cell, acc_deviceptr(&l.values), sizeof cell);
    CHECK(cell == (void *)x);
    acc_delete(&l, sizeof l);
    acc_delete(x, sizeof x);
    return pass();
}
