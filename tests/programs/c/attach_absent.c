// Attaching a pointer that is not on the device, or whose target is not, does nothing (2.7.2).
// EXPECT device-memory
#include "check.h"

int main(void)
{
    int x[4] = {0}, y[4] = {0}, *p = x;
    acc_copyin(x, sizeof x);
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
    acc_delete(x, sizeof x);
    return pass();
}
