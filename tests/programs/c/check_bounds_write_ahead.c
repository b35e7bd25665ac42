// ACCORD_CHECK=bounds: a region of a queue writes ahead of an array that outlasts it.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/region main\._omp_fn\.\d+ has written outside of data: 16 bytes beside array \(check_bounds_write_ahead\.c:\d+, main\), from 16 bytes ahead of its 8000 bytes on \[acc_error_execution\]/
// RUN env=ACCORD_CHECK=bounds
// BUILD offload=no
// BUILD flags=-g -O0
#include "check.h"

#define N 1000

int main(void)
{
    double *array = calloc(N, sizeof *array);
    int first = acc_get_num_devices(acc_device_host) - 4;
#pragma acc enter data copyin(array[0:N])
#pragma acc parallel loop present(array[0:N]) async(1)
    for (int i = 0; i < N; i++)
        array[i] = i;
#pragma acc parallel loop present(array[0:N]) async(1)
    for (int i = first; i < -1; i++)
        array[i + 1] = 1;
#pragma acc wait
    printf("FAIL: the region came back\n");
    return 0;
}
