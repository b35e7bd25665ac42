// A shared object whose constructor uses OpenACC before the one by which GCC registers the object's code for GPUs: its regions run on GPUs all the
// same, also when it is opened again.
// BUILD plugin=deepbind.c
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    CHECK_EQ(separate(), 1);
    for (int round = 0; round < 3; round++) {
        void *object = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!object) {
            printf("FAIL dlopen: %s\n", dlerror());
            return 1;
        }
        int (*at_start)(void) = (int (*)(void))dlsym(object, "plugin_separate_at_start");
        int (*now)(void) = (int (*)(void))dlsym(object, "plugin_separate");
        CHECK(at_start && now);
        CHECK_EQ(at_start(), 1);
        CHECK_EQ(now(), 1);
        CHECK_EQ(dlclose(object), 0);
    }
    return pass();
}
