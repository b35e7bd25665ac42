// A program without regions of its own loads an object with regions (RTLD_LOCAL).
// BUILD plugin=plugin.c
// BUILD core
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *object = argc > 1 ? dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL) : NULL;
    if (!object) {
        printf("FAIL dlopen: %s\n", argc > 1 ? dlerror() : "no argument");
        return 1;
    }
    int (*sum)(const int *, int) = (int (*)(const int *, int))dlsym(object, "plugin_sum");
    int (*scale)(int) = (int (*)(int))dlsym(object, "plugin_scale");
    int a[5] = {1, 2, 3, 4, 5};
    if (!sum || !scale || sum(a, 5) != 15 || scale(14) != 42) {
        printf("FAIL: wrong results\n");
        return 1;
    }
    printf("PASS\n");
    return 0;
}
