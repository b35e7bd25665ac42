// Loops over parts of rows: asynchronous updates of them go to the driver as few copies, in their order with regions. The driver that
// tests bring along counts them.
#include "check.h"
#include <dlfcn.h>

enum { ROWS = 200, COLUMNS = 60, PART = 20, FROM = 7 };

static double a[ROWS][COLUMNS];

static void add(double *restrict all, int n, int queue)
{
#pragma acc parallel loop present(all[0:n]) async(queue)
    for (int i = 0; i < n; i++)
        all[i] += 0.5;
}

static int add_on_fake(const unsigned long long *slots)
{
    double *all = (double *)slots[0];
    int n = *(int *)slots[1];
    for (int i = 0; i < n; i++)
        all[i] += 0.5;
    return 0;
}

int main(void)
{
    unsigned (*count)(void) = NULL;
    acc_init(acc_device_nvidia);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver) {
        void (*replace)(const char *, int (*)(const unsigned long long *));
        *(void **)&replace = dlsym(driver, "fake_cuda_kernel");
        *(void **)&count = dlsym(driver, "fake_cuda_row_copies");
        if (replace)
            replace("add$_omp_fn$0", add_on_fake);
    }
#pragma acc enter data create(a)
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++)
                a[i][j] = round * 1000 + i + j * 0.001;
#pragma acc update device(a)
        unsigned before = count ? count() : 0;
        for (int i = 0; i < ROWS; i++) {
            for (int j = FROM; j < FROM + PART; j++)
                a[i][j] = -i - j;
#pragma acc update device(a[i][FROM:PART]) async(1)
            /* What was sent is the caller's again only after a wait, as the specification says; but it has been read. */
        }
        add(a[0], ROWS * COLUMNS, 1);
        for (int i = 0; i < ROWS; i++) {
#pragma acc update self(a[i][FROM + 1:PART]) async(1)
        }
#pragma acc wait(1)
        /* 160 B each way, 198 of 200 in each of two copies. */
        if (count)
            CHECK_EQ(count() - before, 2);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++) {
                double sent = j >= FROM && j < FROM + PART ? -i - j : round * 1000 + i + j * 0.001;
                double back = j > FROM && j <= FROM + PART ? 0.5 : 0;
                CHECK(a[i][j] == sent + back);
            }
    }
    /* Of synchronous ones each is done when it returns. */
    unsigned before = count ? count() : 0;
    for (int i = 0; i < ROWS; i++) {
#pragma acc update device(a[i][FROM:PART])
    }
    for (int i = 0; i < ROWS; i++) {
#pragma acc update self(a[i][FROM:PART])
    }
    if (count)
        CHECK_EQ(count(), before);
#pragma acc exit data delete(a)
    return pass();
}
