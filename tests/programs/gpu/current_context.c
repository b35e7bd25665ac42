// After each call the primary CUDA context of the thread's device is current in it, and the program's own context stays (A.2.1).
// Two GPUs are used where there are two. Needs a driver: run by gpu-check.
#include "error_callback.h"
#include <acc_prof.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>

typedef void *handle;

static int (*get_current)(handle *), (*set_current)(handle), (*pop)(handle *), (*create)(handle *, unsigned, int), (*retain)(handle *, int),
    (*release)(int), (*device_get)(int *, int), (*free_memory)(size_t *, size_t *);
static handle primary[2];
static int in_callbacks, wrong_in_callbacks;
static jmp_buf back;

static handle current(void)
{
    handle context = NULL;
    CHECK_EQ(get_current(&context), 0);
    return context;
}

static void launched(acc_prof_info *info, acc_event_info *event, acc_api_info *api)
{
    in_callbacks++;
    wrong_in_callbacks += current() != primary[0];
}

static void failed(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    CHECK(current() == primary[0]);
    longjmp(back, 1);
}

static void *thread(void *argument)
{
    int x = 0;
    CHECK(current() == NULL);
#pragma acc parallel copy(x) async(3)
    x = 1;
    CHECK(current() == primary[0]);
    CHECK_EQ(set_current(NULL), 0);
    acc_wait(3);
    CHECK(current() == primary[0]);
    return NULL;
}

static void primaries(int count)
{
    for (int number = 0; number < count; number++) {
        int device;
        CHECK_EQ(device_get(&device, number), 0);
        CHECK_EQ(retain(&primary[number], device), 0);
        CHECK_EQ(release(device), 0);
    }
}

static void find(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
#define FIND(variable, name) *(void **)&variable = dlsym(driver, #name)
    FIND(get_current, cuCtxGetCurrent);
    FIND(set_current, cuCtxSetCurrent);
    FIND(pop, cuCtxPopCurrent_v2);
    FIND(create, cuCtxCreate_v2);
    FIND(retain, cuDevicePrimaryCtxRetain);
    FIND(release, cuDevicePrimaryCtxRelease_v2);
    FIND(device_get, cuDeviceGet);
    FIND(free_memory, cuMemGetInfo_v2);
}

int main(void)
{
    int devices = acc_get_num_devices(acc_device_nvidia) > 1 ? 2 : 1;
    int x = 0, device;
    size_t free, total;
    find();

    // A device that the program names need not have started.
    acc_set_device_num(0, acc_device_nvidia);
    CHECK(current() != NULL);
    CHECK_EQ(free_memory(&free, &total), 0);
    primaries(devices);
    CHECK(current() == primary[0]);
    acc_init(acc_device_nvidia);
    CHECK(current() == primary[0]);
#pragma acc parallel copy(x)
    x = 1;
    CHECK(current() == primary[0]);
    CHECK(acc_get_current_cuda_context() == primary[0]);
    CHECK_EQ(free_memory(&free, &total), 0);

    // Nothing is current, or another device's.
    CHECK_EQ(set_current(NULL), 0);
    acc_wait_all();
    CHECK(current() == primary[0]);
    if (devices == 2) {
        acc_set_device_num(1, acc_device_nvidia);
        CHECK(current() == primary[1]);
        void *there = acc_malloc(64);
        CHECK(current() == primary[1]);
        acc_set_device_num(0, acc_device_nvidia);
        CHECK(current() == primary[0]);
        void *here = acc_malloc(64);
        acc_memcpy_d2d(here, there, 64, 0, 1);
        CHECK(current() == primary[0]);
        acc_free(here);
    }

    pthread_t other;
    CHECK_EQ(pthread_create(&other, NULL, thread, NULL), 0);
    pthread_join(other, NULL);

    acc_prof_register(acc_ev_enqueue_launch_start, launched, acc_reg);
    CHECK_EQ(set_current(NULL), 0);
#pragma acc parallel copy(x)
    x = 2;
    acc_prof_unregister(acc_ev_enqueue_launch_start, launched, acc_reg);
    CHECK(in_callbacks > 0 && wrong_in_callbacks == 0);

    // A context of the program's own stays where it is.
    handle own, popped;
    CHECK_EQ(device_get(&device, 0), 0);
    CHECK_EQ(create(&own, 0, device), 0);
    CHECK(own != primary[0] && current() == own);
#pragma acc parallel copy(x)
    x = 3;
    CHECK(current() == own);
    acc_set_device_num(devices - 1, acc_device_nvidia);
    acc_free(acc_malloc(64));
    acc_set_device_num(0, acc_device_nvidia);
    CHECK(current() == own);
    CHECK_EQ(pop(&popped), 0);
    CHECK(popped == own && current() == primary[0]);

    CHECK_EQ(set_current(NULL), 0);
    on_errors(failed);
    if (setjmp(back) == 0)
        acc_update_device(&x, sizeof x);
    CHECK(current() == primary[0]);

    // It is gone, and comes back with the device.
    acc_shutdown(acc_device_nvidia);
    CHECK(current() == NULL);
    acc_init(acc_device_nvidia);
    CHECK(current() != NULL);
    CHECK_EQ(free_memory(&free, &total), 0);
    return pass();
}
