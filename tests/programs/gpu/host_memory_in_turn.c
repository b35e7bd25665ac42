// Copies out of a GPU and copies in of the same memory, in one queue and in queues that wait for each other, without a region.
// BUILD offload=yes
#include "check.h"
#include <stdlib.h>

enum { MOST = 400000 };
static int *a, *b;

static void put(int n, int from)
{
    for (int i = 0; i < n; i++)
        a[i] = from + i;
}

static void check(const int *p, int n, int from)
{
    for (int i = 0; i < n; i++)
        CHECK_EQ(p[i], from + i);
}

static void updates(int n)
{
    size_t bytes = n * sizeof *a;
    put(n, 1);
    acc_copyin(a, bytes);
    put(n, 2);
    for (int round = 0; round < 4; round++) {
        acc_update_self_async(a, bytes, 1);
        acc_update_device_async(a, bytes, 1);
        acc_update_self_async(a, bytes, 1);
        acc_wait_async(1, 2);
        acc_wait_async(2, 3);
        acc_update_device_async(a, bytes, 3);
        acc_update_self_async(a, bytes, 3);
        acc_wait(3);
        check(a, n, 1);
    }
    acc_delete(a, bytes);
}

static void out_and_in(int n)
{
    size_t bytes = n * sizeof *a;
    put(n, 3);
    acc_copyin(a, bytes);
    put(n, 4);
    for (int round = 0; round < 4; round++) {
        acc_copyout_async(a, bytes, 1);
        acc_copyin_async(a, bytes, 1);
    }
    acc_copyout_async(a, bytes, 1);
    acc_wait_all();
    check(a, n, 3);
}

static void to_other_memory(int n)
{
    size_t bytes = n * sizeof *a;
    put(n, 5);
    acc_copyin(a, bytes);
    acc_create(b, bytes);
    acc_update_self_async(a, bytes, 1);
    acc_update_device_async(a, bytes, 1);
    acc_memcpy_from_device_async(b, acc_deviceptr(a), bytes, 1);
    acc_wait_async(1, 2);
    acc_memcpy_to_device_async(acc_deviceptr(b), b, bytes, 2);
    acc_wait_async(2, 1);
    acc_copyout_async(b, bytes, 1);
    acc_wait(1);
    check(b, n, 5);
    acc_delete(a, bytes);
}

int main(void)
{
    int sizes[] = {4, 1000, 1024, 5000, 40000, MOST};
    a = calloc(MOST, sizeof *a);
    b = calloc(MOST, sizeof *b);
    for (int i = 0; i < 6; i++) {
        updates(sizes[i]);
        out_and_in(sizes[i]);
        to_other_memory(sizes[i]);
    }
    return pass();
}
