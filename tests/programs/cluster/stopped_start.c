// Uses a device, `stopped_start DEVICE`, whose worker stops itself before it is one.
#include "check.h"
#include <signal.h>

__attribute__((constructor)) static void stop(void)
{
    if (getenv("ACCORD_WORKER"))
        raise(SIGSTOP);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    printf("opening\n");
    fflush(stdout);
    int a = 1;
    acc_set_device_num(atoi(argv[1]), device_type());
#pragma acc enter data copyin(a)
    printf("PASS\n");
    return 0;
}
