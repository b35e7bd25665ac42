// A heap block is named by the pointer that leads to it: here a parameter, whose function is not the one that allocated it.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/update \(message_heap_pointer\.c:15, push\): values \(message_heap_pointer\.c:12, push\) is not present on dev\d/
// EXPECT stderr=/acc_error_not_present/
#include "check.h"

static int calls;

/* Kept from being inlined, and in use after the call, so that its parameter is somewhere. */
__attribute__((noinline)) static double push(
    double *values,
    int n)
{
#pragma acc update device(values[0:n])
    calls++;
    return values[n / 2];
}

int main(void)
{
    double *data = calloc(1000, sizeof *data);
    double sum = push(data, 1000);
    printf("FAIL: the update came back %f %d\n", sum, calls);
    free(data);
    return 0;
}
