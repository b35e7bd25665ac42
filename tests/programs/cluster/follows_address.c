// Follows an address of device DEVICE itself: `follows_address DEVICE [handler]`. With a handler the program has one of its own.
#include "check.h"
#include <signal.h>
#include <unistd.h>

static void handler(int signal, siginfo_t *info, void *context)
{
    static const char text[] = "own handler\n";
    (void)signal, (void)info, (void)context;
    (void)!write(1, text, sizeof text - 1);
    _exit(7);
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
        sigaction(SIGSEGV, &action, NULL);
    }
    int value = 0;
    acc_set_device_num(atoi(argv[1]), device_type());
    int *p = acc_malloc(1000);
    p[3] = 5;
    acc_memcpy_from_device(&value, p + 3, sizeof value);
    printf("value=%d\n", value);
    return 0;
}
