// A program's own region, data and properties on a GPU. The driver that tests bring along has no compiler: it runs the
// function that this program registers in the region's place.
#include "check.h"
#include <dlfcn.h>

static void add(double *restrict a, int n, double s, int queue)
{
#pragma acc parallel loop present(a[0:n]) async(queue)
    for (int i = 0; i < n; i++)
        a[i] += s;
}

static int add_on_fake(const unsigned long long *slots)
{
    double *a = (double *)slots[0], s = *(double *)slots[1];
    int n = *(int *)slots[2];
    for (int i = 0; i < n; i++)
        a[i] += s;
    return 0;
}

int main(void)
{
    enum { N = 300000 };
    static double a[N];
    acc_init(acc_device_nvidia);
    CHECK(acc_get_num_devices(acc_device_nvidia) > 0);
    CHECK(acc_get_device_type() == acc_device_nvidia);
    CHECK(acc_get_property(0, acc_device_nvidia, acc_property_memory) > 0);
    CHECK(strcmp(acc_get_property_string(0, acc_device_nvidia, acc_property_vendor), "NVIDIA") == 0);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    CHECK(driver != NULL);
    void (*replace)(const char *, int (*)(const unsigned long long *));
    *(void **)&replace = dlsym(driver, "fake_cuda_kernel");
    if (replace)
        replace("add$_omp_fn$0", add_on_fake);
    for (int device = 0; device < acc_get_num_devices(acc_device_nvidia); device++) {
        acc_set_device_num(device, acc_device_nvidia);
        for (int i = 0; i < N; i++)
            a[i] = i;
#pragma acc enter data copyin(a) async(1)
        for (int round = 0; round < 10; round++)
            add(a, round % 2 ? N : 100, 0.5, 1);
#pragma acc update self(a) async(1)
#pragma acc wait(1)
        for (int i = 0; i < N; i++)
            CHECK_EQ(a[i], i + (i < 100 ? 5 : 2.5));
#pragma acc exit data delete(a)
    }
    return pass();
}
