// Queues of a device named by its number, waiting for any of several queues, and one device's start and end: routines that
// GCC's headers lack, in C and in the form of Fortran's external procedures (3.2.7 to 3.2.12).
// EXPECT device-memory
#include "check.h"

#define LACKING __attribute__((weak))
extern void acc_init_device(int num, acc_device_t type) LACKING;
extern void acc_shutdown_device(int num, acc_device_t type) LACKING;
extern int acc_async_test_device(int queue, int num) LACKING;
extern int acc_async_test_all_device(int num) LACKING;
extern void acc_wait_device(int queue, int num) LACKING;
extern void acc_wait_all_device(int num) LACKING;
extern void acc_wait_device_async(int waited, int queue, int num) LACKING;
extern void acc_wait_all_device_async(int queue, int num) LACKING;
extern int acc_wait_any(int count, int queues[]) LACKING;
extern int acc_wait_any_device(int count, int queues[], int num) LACKING;
extern void acc_init_device_(const int *num, const int *type) LACKING;
extern void acc_shutdown_device_(const int *num, const int *type) LACKING;
extern int acc_async_test_device_(const int *queue, const int *num) LACKING;
extern int acc_async_test_all_device_(const int *num) LACKING;
extern void acc_wait_device_(const int *queue, const int *num) LACKING;
extern void acc_wait_all_device_(const int *num) LACKING;
extern void acc_wait_device_async_(const int *waited, const int *queue, const int *num) LACKING;
extern void acc_wait_all_device_async_(const int *queue, const int *num) LACKING;
extern int acc_wait_any_(const int *count, int queues[]) LACKING;
extern int acc_wait_any_device_(const int *count, int queues[], const int *num) LACKING;
extern int acc_get_default_async_(void) LACKING;
extern void acc_set_default_async_(const int *queue) LACKING;

enum { N = 1 << 16 };
static int a[N], b[N], c[N];

/* On device `num` queue 1 fills a, queue 2 makes b of it, queue 3 makes c of both and copies it out. */
static void chain(int num, acc_device_t type, int fortran)
{
    const int one = 1, two = 2, three = 3;
    acc_set_device_num(num, type);
#pragma acc enter data create(a, b, c)
#pragma acc parallel loop present(a) async(1)
    for (int i = 0; i < N; i++)
        a[i] = i + num;
    acc_set_device_num(0, type);
    fortran ? acc_wait_device_async_(&one, &two, &num) : acc_wait_device_async(1, 2, num);
    acc_set_device_num(num, type);
#pragma acc parallel loop present(a, b) async(2)
    for (int i = 0; i < N; i++)
        b[i] = 2 * a[i];
    acc_set_device_num(0, type);
    fortran ? acc_wait_all_device_async_(&three, &num) : acc_wait_all_device_async(3, num);
    acc_set_device_num(num, type);
#pragma acc parallel loop present(a, b, c) async(3)
    for (int i = 0; i < N; i++)
        c[i] = a[i] + b[i];
#pragma acc update self(c) async(3)
    acc_set_device_num(0, type);
    fortran ? acc_wait_device_(&three, &num) : acc_wait_device(3, num);
    CHECK_EQ(fortran ? acc_async_test_device_(&three, &num) : acc_async_test_device(3, num), 1);
    for (int i = 0; i < N; i++)
        CHECK_EQ(c[i], 3 * (i + num));
    fortran ? acc_wait_all_device_(&num) : acc_wait_all_device(num);
    CHECK_EQ(fortran ? acc_async_test_all_device_(&num) : acc_async_test_all_device(num), 1);
    acc_set_device_num(num, type);
#pragma acc exit data delete(a, b, c)
}

/* Each of three queues is reported once, and then none is left. */
static void any(int num, acc_device_t type, int fortran)
{
    int queues[] = {acc_async_sync, 5, 6, acc_async_noval}, seen[4] = {0};
    const int count = 4;
    acc_set_device_num(num, type);
#pragma acc enter data copyin(a)
    for (int queue = 5; queue <= 6; queue++) {
#pragma acc parallel loop present(a) async(queue)
        for (int i = queue; i < N; i += 2)
            a[i] = queue;
    }
#pragma acc parallel loop copyout(b) async
    for (int i = 0; i < N; i++)
        b[i] = i;
    for (int round = 0; round < 3; round++) {
        int at = !fortran && num == 0 ? acc_wait_any(count, queues)
                 : !fortran           ? acc_wait_any_device(count, queues, num)
                 : num == 0           ? acc_wait_any_(&count, queues) - 1
                                      : acc_wait_any_device_(&count, queues, &num) - 1;
        CHECK(at >= 1 && at <= 3 && !seen[at]);
        seen[at] = 1;
        queues[at] = acc_async_sync;
    }
    CHECK_EQ(acc_wait_any(count, queues), -1);
    CHECK_EQ(acc_wait_any_(&count, queues), -1);
    CHECK_EQ(acc_wait_any_device(0, NULL, num), -1);
    for (int i = 0; i < N; i++)
        CHECK_EQ(b[i], i);
#pragma acc exit data copyout(a)
    for (int i = 6; i < N; i++)
        CHECK_EQ(a[i], i % 2 ? 5 : 6);
}

/* One device ends: what others have stays. It starts again at its next use. */
static void start_and_end(int n, acc_device_t type, int fortran)
{
    const int zero = 0, last = n - 1, kind = type;
    fortran ? acc_init_device_(&last, &kind) : acc_init_device(last, type);
    CHECK_EQ(acc_get_device_num(type), last);
    for (int num = 0; num < n; num++) {
        acc_set_device_num(num, type);
#pragma acc enter data copyin(a)
    }
    fortran ? acc_shutdown_device_(&zero, &kind) : acc_shutdown_device(0, type);
    for (int num = 0; num < n; num++) {
        acc_set_device_num(num, type);
        CHECK_EQ(!!acc_is_present(a, sizeof a), num > 0);
    }
    for (int num = 1; num < n; num++) {
        acc_set_device_num(num, type);
#pragma acc exit data delete(a)
    }
}

int main(void)
{
    CHECK(acc_wait_any != NULL && acc_wait_any_ != NULL);
    CHECK(separate());
    acc_device_t type = device_type();
    int n = device_count();
    for (int fortran = 0; fortran < 2; fortran++) {
        for (int num = 0; num < n; num++)
            chain(num, type, fortran);
        any(0, type, fortran);
        any(n - 1, type, fortran);
        start_and_end(n, type, fortran);
    }
    const int seven = 7, none = acc_async_noval;
    CHECK_EQ(acc_get_default_async_(), 0);
    acc_set_default_async_(&seven);
    CHECK_EQ(acc_get_default_async_(), 7);
    acc_set_default_async_(&none);
    return pass();
}
