/* Calls every routine of OpenACC 3.3, chapter 3 and A.2.1, by Accord's openacc.h, as C and as C++, and looks at its
   effect. For separate memory; copies from device to device are within one where there is only one. */
#include "check.h"

#ifndef ACCORD_OPENACC_H
#error "this is another openacc.h"
#endif

enum { N = 64 };
static int a[N], b[N];
static const size_t BYTES = sizeof a;

/* Another device than the current one, where there is one. */
static int other(void)
{
    acc_device_t type = acc_get_device_type();
    int num = acc_get_device_num(type);
    return acc_get_num_devices(type) < 2 ? num : num == 0 ? 1 : 0;
}

/* a is not on the device any more. */
static void absent(void)
{
    CHECK_EQ(acc_is_present(a, BYTES), 0);
}

static void add(int n)
{
#pragma acc parallel loop present(a)
    for (int i = 0; i < N; i++)
        a[i] += n;
}

static void devices(void)
{
    acc_device_t type = acc_get_device_type();
    int num = acc_get_device_num(type);
    CHECK(acc_get_num_devices(type) >= 1);
    CHECK_EQ(acc_get_num_devices(acc_device_none), 0);
    acc_set_device_type(type);
    acc_init(type);
    acc_init_device(num, type);
    CHECK_EQ(acc_get_device_num(type), num);
    int next = other();
    acc_set_device_num(next, type);
    CHECK_EQ(acc_get_device_num(acc_device_current), next);
    acc_set_device_num(num, type);
    CHECK(acc_get_property(num, type, acc_property_memory) > 0);
    CHECK(acc_get_property(num, type, acc_property_free_memory) > 0);
    CHECK(acc_get_property_string(num, type, acc_property_name) != NULL);
    CHECK(acc_get_property_string(num, type, acc_property_vendor) != NULL);
    CHECK(acc_get_property_string(num, type, acc_property_driver) != NULL);
    CHECK(acc_on_device(acc_device_host));
    CHECK(acc_device_cpu != acc_device_nvidia);
}

static void queues(void)
{
    acc_device_t type = acc_get_device_type();
    int num = acc_get_device_num(type), list[] = {1, 2};
    int initial = acc_get_default_async();
    acc_set_default_async(2);
    CHECK_EQ(acc_get_default_async(), 2);
    acc_set_default_async(acc_async_default);
    CHECK_EQ(acc_get_default_async(), initial);

    acc_copyin(a, BYTES);
#pragma acc parallel loop present(a) async(1)
    for (int i = 0; i < N; i++)
        a[i] = 2;
    acc_wait_async(1, 2);
    acc_wait_device_async(2, 3, num);
    acc_wait_all_async(2);
    acc_wait_all_device_async(3, num);
#pragma acc update self(a) async(3)
    int any = acc_wait_any(2, list);
    CHECK(any == 0 || any == 1);
    any = acc_wait_any_device(2, list, num);
    CHECK(any == 0 || any == 1);
    acc_wait(3);
    CHECK_ALL(a, N, 2);
    CHECK_EQ(acc_async_test(3), 1);
    CHECK_EQ(acc_async_test_device(3, num), 1);
    acc_wait_device(1, num);
    acc_async_wait(2);
    acc_wait_all();
    acc_async_wait_all();
    acc_wait_all_device(num);
    CHECK_EQ(acc_async_test_all(), 1);
    CHECK_EQ(acc_async_test_all_device(num), 1);
    acc_delete(a, BYTES);
    absent();
}

static void data(void)
{
    for (int i = 0; i < N; i++)
        a[i] = 1;
    void *device = acc_copyin(a, BYTES);
    CHECK(device != NULL);
    CHECK(acc_deviceptr(a) == device);
    CHECK(acc_hostptr(device) == a);
    CHECK(acc_present_or_copyin(a, BYTES) == device);
    CHECK(acc_pcopyin(a, BYTES) == device);
    CHECK(acc_create(a, BYTES) == device);
    CHECK(acc_present_or_create(a, BYTES) == device);
    CHECK(acc_pcreate(a, BYTES) == device);
    acc_copyin_async(a, BYTES, 1);
    acc_create_async(a, BYTES, 1);
    add(1);
    acc_update_self(a, BYTES);
    CHECK_ALL(a, N, 2);
    for (int i = 0; i < N; i++)
        a[i] = 5;
    acc_update_device(a, BYTES);
    add(1);
    acc_update_self_async(a, BYTES, 1);
    acc_wait(1);
    CHECK_ALL(a, N, 6);
    for (int i = 0; i < N; i++)
        a[i] = 7;
    acc_update_device_async(a, BYTES, 1);
    acc_wait(1);
    add(1);
    acc_copyout(a, BYTES);
    acc_delete(a, BYTES);
    acc_copyout_async(a, BYTES, 1);
    acc_delete_async(a, BYTES, 1);
    acc_wait(1);
    CHECK_EQ(acc_is_present(a, BYTES), 1);
    CHECK_ALL(a, N, 7);
    acc_copyout_finalize(a, BYTES);
    absent();
    CHECK_ALL(a, N, 8);
    acc_copyin(a, BYTES);
    acc_copyin(a, BYTES);
    add(1);
    acc_copyout_finalize_async(a, BYTES, 1);
    acc_wait(1);
    absent();
    CHECK_ALL(a, N, 9);
    acc_copyin(a, BYTES);
    acc_copyin(a, BYTES);
    acc_delete_finalize(a, BYTES);
    absent();
    acc_copyin(a, BYTES);
    acc_copyin(a, BYTES);
    acc_delete_finalize_async(a, BYTES, 1);
    acc_wait(1);
    absent();
}

static void memory(void)
{
    acc_device_t type = acc_get_device_type();
    int num = acc_get_device_num(type), next = other();
    void *one = acc_malloc(BYTES), *two = acc_malloc(BYTES);
    CHECK(one != NULL && two != NULL && one != two);
    for (int i = 0; i < N; i++) {
        a[i] = 3;
        b[i] = 0;
    }
    acc_memcpy_to_device(one, a, BYTES);
    acc_memcpy_device(two, one, BYTES);
    acc_memcpy_from_device(b, two, BYTES);
    CHECK_ALL(b, N, 3);
    for (int i = 0; i < N; i++)
        a[i] = 4;
    acc_memcpy_to_device_async(one, a, BYTES, 1);
    acc_memcpy_device_async(two, one, BYTES, 1);
    acc_memcpy_from_device_async(b, two, BYTES, 1);
    acc_wait(1);
    CHECK_ALL(b, N, 4);
    acc_map_data(a, one, BYTES);
    add(1);
    acc_update_self(a, BYTES);
    CHECK_ALL(a, N, 5);
    acc_unmap_data(a);
    absent();
    acc_free(one);
    acc_free(two);

    acc_copyin(a, BYTES);
    acc_set_device_num(next, type);
    acc_create(b, BYTES);
    acc_memcpy_d2d(b, a, BYTES, next, num);
    acc_update_self(b, BYTES);
    CHECK_ALL(b, N, 5);
    acc_set_device_num(num, type);
    add(1);
    acc_memcpy_d2d_async(b, a, BYTES, next, num, 1);
    acc_wait(1);
    acc_delete(a, BYTES);
    acc_set_device_num(next, type);
    acc_copyout(b, BYTES);
    CHECK_ALL(b, N, 6);
    acc_set_device_num(num, type);
}

static void pointers(void)
{
    static struct list {
        int *next;
    } s;
    int seen = 0;
    void **pointer = (void **)&s.next;
    for (int i = 0; i < N; i++)
        a[i] = i;
    s.next = a;
    acc_copyin(&s, sizeof s);
    acc_copyin(a, BYTES);
    acc_attach(pointer);
    acc_attach_async(pointer, 1);
    acc_wait(1);
#pragma acc parallel present(s) copyout(seen)
    seen = s.next[7];
    CHECK_EQ(seen, 7);
    acc_detach(pointer);
    acc_detach_async(pointer, 1);
    acc_wait(1);
    acc_attach(pointer);
    acc_attach(pointer);
    acc_detach_finalize(pointer);
    acc_attach(pointer);
    acc_detach_finalize_async(pointer, 1);
    acc_wait(1);
    acc_update_self(&s, sizeof s);
    CHECK(s.next == a); /* detached: the host's value again */
    acc_delete(a, BYTES);
    acc_delete(&s, sizeof s);
    absent();
}

static void cuda(void)
{
    /* Objects of CUDA on a GPU, nothing elsewhere. */
    int gpu = acc_get_current_cuda_context() != NULL;
    CHECK_EQ(acc_get_current_cuda_device() != NULL, gpu);
    void *stream = acc_get_cuda_stream(1);
    CHECK_EQ(stream != NULL, gpu);
    if (stream)
        acc_set_cuda_stream(1, stream);
    else
        acc_set_cuda_stream(1, NULL);
}

static int every_routine(void)
{
    acc_device_t type = acc_get_device_type();
    devices();
    queues();
    data();
    memory();
    pointers();
    cuda();
    int num = acc_get_device_num(type);
    acc_shutdown_device(num, type);
    acc_shutdown(type);
    acc_set_device_num(num, type);
    return pass();
}
