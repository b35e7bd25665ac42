/* Uses a library with OpenACC (support/deepbind.c), and OpenACC itself: both mean the same devices and data. */
#include "../support/check.h"

extern int plugin_separate_at_start(void), plugin_separate(void), plugin_devices(void);
extern void plugin_double(int *a, int n);

int main(void)
{
    CHECK_EQ(plugin_separate_at_start(), 1);
    CHECK_EQ(plugin_separate(), 1);
    CHECK_EQ(plugin_devices(), 2);
    CHECK_EQ(device_count(), 2);
    int a[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
#pragma acc enter data copyin(a)
    plugin_double(a, 10);
#pragma acc exit data copyout(a)
    CHECK_EQ(a[9], 20);
    return pass();
}
