// A plug-in that is opened with RTLD_DEEPBIND uses the program's devices and data, its constructor too; bound at once or at the first call.
// BUILD plugin=deepbind.c
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>

static void *function(void *object, const char *name)
{
    void *found = dlsym(object, name);
    if (!found)
        check_failed(__FILE__, __LINE__, name);
    return found;
}

int main(int argc, char **argv)
{
    const int devices = device_count();
    for (int flags = 0; flags < 4; flags++) {
        int binding = (flags & 1 ? RTLD_NOW : RTLD_LAZY) | (flags & 2 ? RTLD_GLOBAL : RTLD_LOCAL) | RTLD_DEEPBIND;
        void *object = argc > 1 ? dlopen(argv[1], binding) : NULL;
        if (!object) {
            printf("FAIL dlopen: %s\n", argc > 1 ? dlerror() : "no argument");
            return 1;
        }
        CHECK_EQ(((int (*)(void))function(object, "plugin_separate_at_start"))(), WANT(1, 0));
        CHECK_EQ(((int (*)(void))function(object, "plugin_separate"))(), WANT(1, 0));
        CHECK_EQ(((int (*)(void))function(object, "plugin_devices"))(), devices);

        int a[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
#pragma acc enter data copyin(a)
        ((void (*)(int *, int))function(object, "plugin_double"))(a, 10);
#pragma acc exit data copyout(a)
        CHECK_EQ(a[9], 20);
        CHECK_EQ(dlclose(object), 0);
    }
    return pass();
}
