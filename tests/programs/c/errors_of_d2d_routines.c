// The errors of 3.2.30 (d2d), each in a process of its own.
// EXPECT device-memory
#include "error_case.h"

static double a[10], b[10];

#define SAME acc_get_device_num(acc_get_device_type())
#define CASES(X)                                                                                        \
    X(d2d, NO_ERROR, acc_create(a, 80); acc_create(b, 80); acc_memcpy_d2d(a, b, 80, SAME, SAME))        \
    X(d2d_null_to, INVALID_NULL_POINTER, acc_create(a, 80); acc_memcpy_d2d(NULL, a, 8, SAME, SAME))     \
    X(d2d_null_from, INVALID_NULL_POINTER, acc_create(a, 80); acc_memcpy_d2d(a, NULL, 8, SAME, SAME))   \
    X(d2d_absent_to, NOT_PRESENT, acc_create(a, 80); acc_memcpy_d2d(b, a, 8, SAME, SAME))               \
    X(d2d_absent_from, NOT_PRESENT, acc_create(a, 80); acc_memcpy_d2d(a, b, 8, SAME, SAME))             \
    X(d2d_partly, PARTLY_PRESENT, acc_create(a, 80); acc_create(b, 8);                                  \
      acc_memcpy_d2d(a, b, 80, SAME, SAME))                                                             \
    X(d2d_no_device_to, DEVICE_UNAVAILABLE, acc_create(a, 80); acc_memcpy_d2d(a, a, 8, 99, SAME))       \
    X(d2d_no_device_from, DEVICE_UNAVAILABLE, acc_create(a, 80); acc_memcpy_d2d(a, a, 8, SAME, -1))     \
    X(d2d_async_bad_queue, INVALID_ASYNC, acc_create(a, 80);                                            \
      acc_memcpy_d2d_async(a, a, 8, SAME, SAME, -4))

ERROR_CASES(CASES)
