/* Regions of libraries that were found by relative paths, after the program has left its folder: `left_folder FOLDER [before] [open LIBRARY] [remove]`.
   FOLDER is where it goes, `before` has a region first, `open` loads the library with the region, `remove` removes it then. Compiled with -DLIBRARY=N
   this is the library, whose region says N. */
#ifdef LIBRARY
int answer(void)
{
    int value = 0;
#pragma acc parallel copyout(value)
    value = LIBRARY;
    return value;
}
#else
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int answer(void) __attribute__((weak));

int main(int argc, char **argv)
{
    int (*ask)(void) = answer;
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "before"))
            printf("before %d\n", ask());
        if (!strcmp(argv[i], "open")) {
            void *library = dlopen(argv[i + 1], RTLD_NOW);
            ask = library ? (int (*)(void))dlsym(library, "answer") : NULL;
            if (!ask) {
                printf("FAIL: %s\n", dlerror());
                return 2;
            }
        }
        if (!strcmp(argv[i], "remove") && unlink("libanswer.so") != 0)
            return 3;
    }
    if (chdir(argv[1]) != 0)
        return 4;
    fflush(stdout);
    printf("answer %d\n", ask());
    return 0;
}
#endif
