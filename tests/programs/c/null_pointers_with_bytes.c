// Data routines take NULL for no data, whatever the number of bytes (3.2.18 to 3.2.22).
// EXPECT device-memory
#include "check.h"

int main(void)
{
    acc_init(acc_device_default);
    CHECK(acc_copyin(NULL, 80) == NULL);
    CHECK(acc_create(NULL, 80) == NULL);
    acc_copyout(NULL, 80);
    acc_delete(NULL, 80);
    acc_copyout_finalize(NULL, 80);
    acc_delete_finalize(NULL, 80);
    acc_update_device(NULL, 80);
    acc_update_self(NULL, 80);
    return pass();
}
