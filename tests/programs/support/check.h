/* What every program needs to check itself: the first wrong value ends it with status 1. */
#ifndef CHECK_H
#define CHECK_H
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif
/* OpenACC 3.3, 3.2.30; NULL where the library lacks them. */
extern void acc_memcpy_d2d(void *dst_host, void *src_host, size_t bytes, int dst_device, int src_device)
    __attribute__((weak));
extern void acc_memcpy_d2d_async(void *dst_host, void *src_host, size_t bytes, int dst_device, int src_device,
                                 int src_queue) __attribute__((weak));
#ifdef __cplusplus
}
#endif

static inline void check_failed(const char *file, int line, const char *what)
{
    printf("FAIL %s:%d: %s\n", file, line, what);
    fflush(stdout);
    exit(1);
}

static inline void check_equal(const char *file, int line, const char *what, double got, double want)
{
    if (got == want)
        return;
    printf("FAIL %s:%d: %s is %.17g, expected %.17g\n", file, line, what, got, want);
    fflush(stdout);
    exit(1);
}

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))
#define CHECK_EQ(got, want) check_equal(__FILE__, __LINE__, #got, (double)(got), (double)(want))
#define CHECK_ALL(array, n, want)                                                                                     \
    do {                                                                                                              \
        for (int i = 0; i < (n); i++)                                                                                 \
            if ((double)(array)[i] != (double)(want)) {                                                               \
                printf("FAIL %s:%d: %s[%d] is %.17g, expected %.17g\n", __FILE__, __LINE__, #array, i,                \
                       (double)(array)[i], (double)(want));                                                           \
                fflush(stdout);                                                                                       \
                exit(1);                                                                                              \
            }                                                                                                         \
    } while (0)

/* Whether the device's memory is its own. Where the tests know that it must be, anything else is a failure. */
static inline int separate(void)
{
    static int known = -1;
    if (known < 0) {
        int x = 1, y = 0;
#pragma acc enter data copyin(x)
        x = 2;
#pragma acc parallel copyout(y) present(x)
        y = x;
#pragma acc exit data delete(x)
        known = y == 1;
        const char *must = getenv("ACCORD_TEST_SEPARATE");
        if (must && *must == '1' && !known)
            check_failed(__FILE__, __LINE__, "device memory is separate from the host's");
    }
    return known;
}

/* The end of a program whose checks all held, on a device that is what it should be. */
static inline int pass(void)
{
    if (getenv("ACCORD_TEST_SEPARATE"))
        separate();
    printf("PASS\n");
    return 0;
}

/* The value expected with separate memory, and with shared memory. */
#define WANT(if_separate, if_shared) (separate() ? (if_separate) : (if_shared))

/* The type whose devices the program uses, and how many there are. */
static inline acc_device_t device_type(void)
{
    return acc_get_device_type();
}

static inline int device_count(void)
{
    return acc_get_num_devices(device_type());
}
#endif
