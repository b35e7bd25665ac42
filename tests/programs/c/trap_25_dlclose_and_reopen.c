// A shared object with regions and declared data, opened, closed and opened again: other addresses, other tables.
// BUILD plugin=plugin.c
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    for (int round = 1; round <= 3; round++) {
        void *object = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!object) {
            printf("FAIL dlopen: %s\n", dlerror());
            return 1;
        }
        int (*sum)(const int *, int) = (int (*)(const int *, int))dlsym(object, "plugin_sum");
        int (*scale)(int) = (int (*)(int))dlsym(object, "plugin_scale");
        CHECK(sum && scale);
        int a[20];
        for (int i = 0; i < 20; i++)
            a[i] = i * round;
        CHECK_EQ(sum(a, 20), 190 * round);
        CHECK_EQ(scale(round), 3 * round);
        CHECK_EQ(dlclose(object), 0);
    }
    int x = 1;
#pragma acc parallel copy(x)
    x = 2;
    CHECK_EQ(x, 2);
    return pass();
}
