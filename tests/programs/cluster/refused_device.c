// Uses each device once its input has a line. The program leaves an error by longjmp and goes on with the next device.
#include <setjmp.h>
#include "error_callback.h"

static jmp_buf next;

static void leave(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    (void)prof, (void)api;
    printf("error: %s\n", ((const struct error_event *)event)->error_message);
    longjmp(next, 1);
}

int main(void)
{
    static int value, ran, device, devices;
    acc_device_t type = device_type();
    on_errors(leave);
    devices = acc_get_num_devices(type);
    printf("has %d\n", devices);
    fflush(stdout);
    getchar();
    for (device = 0; device < devices; device++) {
        if (setjmp(next))
            continue;
        acc_set_device_num(device, type);
#pragma acc parallel loop copy(value)
        for (int i = 0; i < 1; i++)
            value = device + 7;
        CHECK_EQ(value, device + 7);
        ran++;
    }
    printf("ran on %d of %d\n", ran, devices);
    return pass();
}
