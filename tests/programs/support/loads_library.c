/* Calls `add_one` of the library that is its argument. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int values[100];
    for (int i = 0; i < 100; i++)
        values[i] = i;
    void *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW);
    int (*add_one)(int *, int) = library ? (int (*)(int *, int))dlsym(library, "add_one") : NULL;
    if (!add_one) {
        printf("FAIL: %s\n", dlerror());
        return 1;
    }
    return add_one(values, 100);
}
