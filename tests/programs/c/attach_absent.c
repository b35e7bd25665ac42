// Attaching a pointer that is not on the device, or whose target is not, does nothing (2.7.2).
// EXPECT device-memory
#include "check.h"

int main(void)
{
    static int room[64]; /* one past the end of x would still count as x's */
    int *x = room, *y = room + 32, *p = x;
    size_t size = 4 * sizeof *x;
    acc_copyin(x, size);
    acc_attach((void **)&p);
    acc_detach((void **)&p);
    acc_copyin(&p, sizeof p);
    p = y;
    acc_attach((void **)&p);
    void *cell = NULL;
    acc_memcpy_from_device(&cell, acc_deviceptr(&p), sizeof cell);
    CHECK(cell == (void *)x); /* as it was */
    acc_detach((void **)&p);
    acc_delete(&p, sizeof p);
    acc_delete(x, size);
    return pass();
}
