// A program that uses CUDA's driver itself, too: what its asynchronous updates of rows have sent is there for code that looks by the driver.
#include "check.h"
#include <dlfcn.h>
#include <time.h>

enum { ROWS = 40, COLUMNS = 60, PART = 20 };

static double a[ROWS][COLUMNS], there[ROWS][COLUMNS];

int main(void)
{
    acc_init(acc_device_nvidia);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*push)(void *), (*copy)(void *, unsigned long long, size_t, void *), (*synchronize)(void *);
    *(void **)&push = dlsym(driver, "cuCtxPushCurrent_v2");
    *(void **)&copy = dlsym(driver, "cuMemcpyDtoHAsync_v2");
    *(void **)&synchronize = dlsym(driver, "cuStreamSynchronize");
    CHECK(push && copy && synchronize);
    CHECK_EQ(push(acc_get_current_cuda_context()), 0);
#pragma acc enter data copyin(a)
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < PART; j++)
            a[i][j] = i + 1;
#pragma acc update device(a[i][0:PART]) async(1)
    }
    unsigned long long device = (unsigned long long)acc_deviceptr(a);
    time_t end = time(NULL) + 3;
    do {
        CHECK_EQ(copy(there, device, sizeof there, NULL), 0);
        CHECK_EQ(synchronize(NULL), 0);
    } while (memcmp(a, there, sizeof a) && time(NULL) < end);
    CHECK(!memcmp(a, there, sizeof a));
#pragma acc exit data delete(a)
    return pass();
}
