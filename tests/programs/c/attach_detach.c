// attach and detach, as clauses and as routines; the attachment counter (2.6.8, 2.7.12, 2.7.13, 3.2.29).
#include "check.h"

struct s { int *p; int n; };

static int first_on_device(struct s *t)
{
    int got = -1;
#pragma acc parallel present(t[0:1]) copyout(got)
    got = t->p[0];
    return got;
}

int main(void)
{
    struct s *t = malloc(sizeof *t);
    int x[4] = {11, 0, 0, 0}, y[4] = {22, 0, 0, 0};
    t->p = x;
    t->n = 4;
    acc_copyin(t, sizeof *t);
    acc_copyin(x, sizeof x);
    acc_copyin(y, sizeof y);
    acc_attach((void **)&t->p);
    CHECK_EQ(first_on_device(t), 11);
    acc_attach((void **)&t->p); /* counter 2 */
    acc_detach((void **)&t->p);
    CHECK_EQ(first_on_device(t), 11);
    acc_detach((void **)&t->p); /* counter 0: the device has the host's address again */
    if (separate()) {
        void *cell = NULL;
        acc_memcpy_from_device(&cell, acc_deviceptr(&t->p), sizeof cell);
        CHECK(cell == (void *)x);
    }
    t->p = y;
#pragma acc enter data attach(t->p)
    CHECK_EQ(first_on_device(t), 22);
#pragma acc exit data detach(t->p)
    acc_attach_async((void **)&t->p, 1);
    acc_wait(1);
    CHECK_EQ(first_on_device(t), 22);
    acc_attach((void **)&t->p);
    acc_detach_finalize((void **)&t->p);
    if (separate()) {
        void *cell = NULL;
        acc_memcpy_from_device(&cell, acc_deviceptr(&t->p), sizeof cell);
        CHECK(cell == (void *)y);
    }
    acc_attach((void **)&t->p);
    acc_detach_async((void **)&t->p, 2);
    acc_attach_async((void **)&t->p, 2);
    acc_detach_finalize_async((void **)&t->p, 2);
    acc_wait(2);
    acc_delete(y, sizeof y);
    acc_delete(x, sizeof x);
    acc_delete(t, sizeof *t);
    return pass();
}
