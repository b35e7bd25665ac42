/* Opens a library with OpenACC (support/deepbind.c) in a namespace of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *object = argc > 1 ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW) : NULL;
    if (!object) {
        printf("FAIL dlmopen: %s\n", argc > 1 ? dlerror() : "no argument");
        return 1;
    }
    int (*at_start)(void) = (int (*)(void))dlsym(object, "plugin_separate_at_start");
    int (*now)(void) = (int (*)(void))dlsym(object, "plugin_separate");
    int there = at_start(), here = now();
    if (there != 1 || here != 1) {
        printf("FAIL: separate memory: %d in the constructor, %d now\n", there, here);
        return 1;
    }
    printf("PASS\n");
    return 0;
}
