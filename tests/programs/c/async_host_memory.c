// What a queue brings into the program's memory is there for what comes after it: a later copy in of the same queue,
// or of one that waits for it, and the host when it
// waits for that (2.16).
// BUILD core
#include "busy.h"
#include "check.h"

static int sizes[] = {4, 1000, 1024, 5000, 40000, 400000};
static int *a, *b;

static void set(int *p, int n, int value, int queue)
{
#pragma acc parallel loop present(p[0:n]) async(queue)
    for (int i = 0; i < n; i++)
        p[i] = value;
}

static void regions(int n)
{
    busy(1);
    for (int round = 0; round < 4; round++) {
#pragma acc parallel loop copy(a[0:n]) async(1)
        for (int i = 0; i < n; i++)
            a[i] += 1;
    }
#pragma acc wait(1) async(2)
#pragma acc parallel loop copy(a[0:n]) async(2)
    for (int i = 0; i < n; i++)
        a[i] *= 10;
#pragma acc wait(2)
    CHECK_ALL(a, n, 40);
}

static void updates(int n)
{
#pragma acc enter data create(a[0:n])
    busy(1);
    set(a, n, 5, 1);
#pragma acc update self(a[0:n]) async(1)
    set(a, n, 6, 1);
#pragma acc update device(a[0:n]) async(1)
#pragma acc parallel loop present(a[0:n]) async(1)
    for (int i = 0; i < n; i++)
        a[i] += 100;
#pragma acc exit data copyout(a[0:n]) async(1)
#pragma acc wait(1)
    CHECK_ALL(a, n, WANT(105, 106));
}

static void joined_queues(int n)
{
#pragma acc enter data create(a[0:n])
    busy(1);
    set(a, n, 7, 1);
#pragma acc update self(a[0:n]) async(1)
    set(a, n, 8, 1);
#pragma acc wait(1) async(2)
#pragma acc wait(2) async(3)
#pragma acc update device(a[0:n]) async(3)
#pragma acc parallel loop present(a[0:n]) async(3)
    for (int i = 0; i < n; i++)
        a[i] += 100;
#pragma acc update self(a[0:n]) async(3)
#pragma acc wait(3)
    CHECK_ALL(a, n, WANT(107, 108));
#pragma acc exit data delete(a[0:n])
}

static void waiting_for_the_last(int n)
{
#pragma acc enter data create(a[0:n])
    busy(1);
    set(a, n, 3, 1);
#pragma acc update self(a[0:n]) async(1)
#pragma acc wait(1) async(2)
#pragma acc wait(2) async(3)
#pragma acc wait(3)
    CHECK_ALL(a, n, 3);
#pragma acc exit data delete(a[0:n])
}

static void out_and_in_again(int n)
{
#pragma acc enter data create(a[0:n])
    busy(1);
    set(a, n, 11, 1);
#pragma acc exit data copyout(a[0:n]) async(1)
#pragma acc enter data copyin(a[0:n]) async(1)
#pragma acc parallel loop present(a[0:n]) async(1)
    for (int i = 0; i < n; i++)
        a[i] += 1;
#pragma acc exit data copyout(a[0:n]) async(1)
#pragma acc wait
    CHECK_ALL(a, n, 12);
}

static void routines(int n)
{
    size_t bytes = n * sizeof *a;
    acc_create(a, bytes);
    acc_create(b, bytes);
    busy(1);
    set(a, n, 21, 1);
    acc_update_self_async(a, bytes, 1);
    set(a, n, 22, 1);
    acc_update_device_async(a, bytes, 1);
    acc_memcpy_from_device_async(b, acc_deviceptr(a), bytes, 1);
    acc_wait_async(1, 2);
    acc_memcpy_to_device_async(acc_deviceptr(b), b, bytes, 2);
    acc_wait_async(2, 1);
    set(a, n, 23, 1);
    acc_copyout_async(b, bytes, 1);
    acc_wait(1);
    CHECK_ALL(b, n, WANT(21, 22));
    acc_delete(a, bytes);
}

/* The later of two copies to the same memory is the one that stays. */
static void twice(int n)
{
    int part = n / 4;
#pragma acc enter data create(a[0:n])
    busy(1);
    for (int round = 0; round < 6; round++) {
        set(a, n, round, 1);
#pragma acc update self(a[0:n]) async(1)
#pragma acc update self(a[0:part]) async(1)
    }
    set(a, n, 50, 1);
#pragma acc update self(a[part:part]) async(1)
#pragma acc wait(1) async(2)
    set(a, n, 51, 2);
#pragma acc update self(a[0:part]) async(2)
#pragma acc wait(2)
    CHECK_ALL(a, part, 51);
    CHECK_ALL(a + part, part, WANT(50, 51));
    CHECK_ALL(a + 2 * part, n - 2 * part, WANT(5, 51));
#pragma acc exit data delete(a[0:n])
}

/* By one queue, and then by another one that has waited for both. */
static void read_twice(int n)
{
#pragma acc enter data create(b[0:n])
    set(b, n, 1, 2);
    busy(1);
#pragma acc parallel loop copy(a[0:n]) async(1)
    for (int i = 0; i < n; i++)
        a[i] += 5;
#pragma acc wait(1) async(2)
#pragma acc parallel loop copyin(a[0:n]) present(b[0:n]) async(2)
    for (int i = 0; i < n; i++)
        b[i] += a[i];
#pragma acc wait(2) async(1)
#pragma acc parallel loop copy(a[0:n]) async(1)
    for (int i = 0; i < n; i++)
        a[i] += 10;
#pragma acc exit data copyout(b[0:n]) async(1)
#pragma acc wait(1)
    CHECK_ALL(a, n, 15);
    CHECK_ALL(b, n, 6);
}

/* Memory that a queue is still to read is written after that. */
static void read_before_written(int n)
{
    for (int i = 0; i < n; i++)
        a[i] = 31;
#pragma acc enter data create(a[0:n], b[0:n])
    set(b, n, 32, 1);
    busy(2);
    acc_memcpy_to_device_async(acc_deviceptr(a), a, n * sizeof *a, 2);
#pragma acc wait(2) async(1)
    acc_memcpy_from_device_async(a, acc_deviceptr(b), n * sizeof *a, 1);
#pragma acc wait(1)
    CHECK_ALL(a, n, 32);
#pragma acc exit data copyout(a[0:n]) delete(b[0:n])
    CHECK_ALL(a, n, WANT(31, 32));
}

int main(void)
{
    void (*tests[])(int) = {regions,  updates, joined_queues, waiting_for_the_last, out_and_in_again,
                            routines, twice,   read_twice,    read_before_written};
    for (int s = 0; s < (int)(sizeof sizes / sizeof *sizes); s++)
        for (int t = 0; t < (int)(sizeof tests / sizeof *tests); t++) {
            int n = sizes[s];
            a = calloc(n, sizeof *a);
            b = calloc(n, sizeof *b);
            tests[t](n);
            free(a);
            free(b);
        }
    return pass();
}
