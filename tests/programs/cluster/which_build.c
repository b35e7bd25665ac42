// Says ANSWER, which is compiled in, from a region on the last device, after a line of input. The region is this program's or, with an
// argument, that of a shared object: this source again, with PLUGIN.
#include <dlfcn.h>
#include <openacc.h>
#include <stdio.h>

int answer(void)
{
    int value = 0;
#pragma acc parallel copyout(value)
    value = ANSWER;
    return value;
}

#ifndef PLUGIN
int main(int argc, char **argv)
{
    int (*ask)(void) = answer;
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (argc > 1) {
        ask = plugin ? (int (*)(void))dlsym(plugin, "answer") : NULL;
        if (!ask) {
            fprintf(stderr, "%s\n", dlerror());
            return 2;
        }
    }
    acc_device_t type = acc_get_device_type();
    acc_set_device_num(acc_get_num_devices(type) - 1, type);
    printf("ready\n");
    fflush(stdout);
    getchar();
    printf("answer %d\n", ask());
    return 0;
}
#endif
