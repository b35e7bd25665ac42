// Regions and copies between devices on all GPUs of a cluster. With the driver that tests bring along, cluster_kernels.c has
// what runs in the regions' place.
#include "check.h"

enum { N = 60000 };
static double a[N];

static void add(double *restrict a, int n, double s)
{
#pragma acc parallel loop present(a[0:n]) async(1)
    for (int i = 0; i < n; i++)
        a[i] += s;
}

static void describe(acc_device_t type, const char *name)
{
    for (int num = 0; num < acc_get_num_devices(type); num++)
        printf("%s %d: %s %s, CUDA %s, %zu bytes, %s free\n", name, num,
               acc_get_property_string(num, type, acc_property_vendor),
               acc_get_property_string(num, type, acc_property_name),
               acc_get_property_string(num, type, acc_property_driver), acc_get_property(num, type, acc_property_memory),
               acc_get_property(num, type, acc_property_free_memory) > 0 ? "some" : "none");
}

int main(int argc, char **argv)
{
    acc_device_t type = acc_get_device_type();
    int devices = acc_get_num_devices(type);
    printf("%d nvidia, %d cpu, default %s\n", acc_get_num_devices(acc_device_nvidia), acc_get_num_devices(64),
           type == acc_device_nvidia ? "nvidia" : "other");
    describe(acc_device_nvidia, "nvidia");
    if (argc > 1 && strcmp(argv[1], "look") == 0)
        return pass();
    for (int device = 0; device < devices; device++) {
        acc_set_device_num(device, type);
        for (int i = 0; i < N; i++)
            a[i] = 1000000.0 * device + i;
#pragma acc enter data copyin(a) async(1)
        add(a, N, 0.25);
        add(a, 10, 0.5);
#pragma acc update self(a) async(1)
#pragma acc wait(1)
        for (int i = 0; i < N; i++)
            CHECK_EQ(a[i], 1000000.0 * device + i + (i < 10 ? 0.75 : 0.25));
    }
    // Every device writes its values into a place of its own on every device.
    enum { FIRST = 10000, COUNT = 1000 };
    CHECK(FIRST + devices * COUNT <= N);
    for (int from = 0; from < devices; from++)
        for (int to = 0; to < devices; to++)
            acc_memcpy_d2d(a + FIRST + from * COUNT, a + 200, COUNT * sizeof *a, to, from);
    for (int to = 0; to < devices; to++) {
        acc_set_device_num(to, type);
        add(a, N, 0.5);
#pragma acc update self(a) async(1)
#pragma acc wait(1)
        for (int from = 0; from < devices; from++)
            for (int i = 0; i < COUNT; i++)
                CHECK_EQ(a[FIRST + from * COUNT + i], 1000000.0 * from + 200 + i + 0.75);
    }
    for (int device = 0; device < devices; device++) {
        acc_set_device_num(device, type);
#pragma acc exit data delete(a)
    }
    return pass();
}
