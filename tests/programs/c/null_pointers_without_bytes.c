// NULL with no bytes, and where the specification lets NULL be: nothing happens (3.2.18 and on).
// EXPECT device-memory
#include "check.h"

int main(void)
{
    int x = 0;
    acc_copyin(&x, sizeof x);
    acc_free(NULL);
    CHECK(acc_malloc(0) == NULL);
    CHECK(acc_copyin(NULL, 0) == NULL);
    CHECK(acc_create(NULL, 0) == NULL);
    acc_copyout(NULL, 0);
    acc_delete(NULL, 0);
    acc_update_device(NULL, 0);
    acc_update_self(NULL, 0);
    CHECK(acc_deviceptr(NULL) == NULL);
    CHECK(acc_hostptr(NULL) == NULL);
    acc_memcpy_to_device(NULL, NULL, 0);
    acc_memcpy_from_device(NULL, NULL, 0);
    acc_delete(&x, sizeof x);
    return pass();
}
