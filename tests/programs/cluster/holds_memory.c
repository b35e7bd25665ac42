// Holds memory of a device until SIGTERM: `holds_memory DEVICE MIB`, or with `once` behind that for a moment. Says how many bytes were free before,
// and "holds" when it has the memory.
#include "check.h"
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t ends;

static void end(int signal)
{
    ends = signal;
}

int main(int argc, char **argv)
{
    int device = argc > 1 ? atoi(argv[1]) : 0;
    size_t bytes = (size_t)(argc > 2 ? atoi(argv[2]) : 1) << 20;
    char *data = calloc(bytes, 1);
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    signal(SIGTERM, end);
    sigprocmask(SIG_BLOCK, &term, NULL);
    acc_set_device_num(device, device_type());
    printf("free %zu\n", acc_get_property(device, device_type(), acc_property_free_memory));
    fflush(stdout);
    acc_create(data, bytes);
#pragma acc parallel present(data[0:bytes])
    data[bytes - 1] = 1;
    printf("holds\n");
    fflush(stdout);
    sigset_t none;
    sigemptyset(&none);
    while (!ends && argc < 4)
        sigsuspend(&none);
    acc_delete(data, bytes);
    free(data);
    return pass();
}
