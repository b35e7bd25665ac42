// The errors of 3.2.9 (async_test) to 3.2.14 (set_default_async), each in a process of its own.
// EXPECT device-memory
#include "error_case.h"

#pragma weak acc_async_test_device
#pragma weak acc_async_test_all_device
#pragma weak acc_wait_device
#pragma weak acc_wait_all_device
#pragma weak acc_wait_device_async
#pragma weak acc_wait_all_device_async
#pragma weak acc_wait_any
#pragma weak acc_wait_any_device
#pragma weak acc_get_default_async
#pragma weak acc_set_default_async
extern int acc_async_test_device(int, int), acc_async_test_all_device(int);
extern void acc_wait_device(int, int), acc_wait_all_device(int);
extern void acc_wait_device_async(int, int, int), acc_wait_all_device_async(int, int);
extern int acc_get_default_async(void);
extern void acc_set_default_async(int);
extern int acc_wait_any(int, int[]), acc_wait_any_device(int, int[], int);

static int queues[] = {3, -8};

#define CASES(X)                                                                        \
    X(test, NO_ERROR, CHECK(acc_async_test(77)))                                        \
    X(test_bad_queue, INVALID_ASYNC, acc_async_test(-3))                                \
    X(test_device_bad_queue, INVALID_ASYNC, acc_async_test_device(-3, 0))               \
    X(test_device_no_device, DEVICE_UNAVAILABLE, acc_async_test_device(1, 99))          \
    X(test_all, NO_ERROR, CHECK(acc_async_test_all()))                                  \
    X(test_all_device_no_device, DEVICE_UNAVAILABLE, acc_async_test_all_device(-1))     \
    X(wait, NO_ERROR, acc_wait(77))                                                     \
    X(wait_bad_queue, INVALID_ASYNC, acc_wait(-3))                                      \
    X(wait_device_bad_queue, INVALID_ASYNC, acc_wait_device(-3, 0))                     \
    X(wait_device_no_device, DEVICE_UNAVAILABLE, acc_wait_device(1, 99))                \
    X(wait_all, NO_ERROR, acc_wait_all())                                               \
    X(wait_all_device_no_device, DEVICE_UNAVAILABLE, acc_wait_all_device(99))           \
    X(wait_async, NO_ERROR, acc_wait_async(1, 2))                                       \
    X(wait_async_bad_waited, INVALID_ASYNC, acc_wait_async(-3, 2))                      \
    X(wait_async_bad_queue, INVALID_ASYNC, acc_wait_async(1, -3))                       \
    X(wait_device_async_bad_waited, INVALID_ASYNC, acc_wait_device_async(-3, 2, 0))     \
    X(wait_device_async_bad_queue, INVALID_ASYNC, acc_wait_device_async(1, -3, 0))      \
    X(wait_device_async_no_device, DEVICE_UNAVAILABLE, acc_wait_device_async(1, 2, 99)) \
    X(wait_all_async_bad_queue, INVALID_ASYNC, acc_wait_all_async(-3))                  \
    X(wait_all_device_async_bad_queue, INVALID_ASYNC, acc_wait_all_device_async(-3, 0)) \
    X(wait_all_device_async_no_device, DEVICE_UNAVAILABLE, acc_wait_all_device_async(1, 99)) \
    X(wait_any_nothing, NO_ERROR, CHECK_EQ(acc_wait_any(0, NULL), -1))                  \
    X(wait_any_negative, INVALID_ARGUMENT, acc_wait_any(-1, queues))                    \
    X(wait_any_null, INVALID_NULL_POINTER, acc_wait_any(1, NULL))                       \
    X(wait_any_bad_queue, INVALID_ASYNC, acc_wait_any(1, queues + 1))                   \
    X(wait_any_device_negative, INVALID_ARGUMENT, acc_wait_any_device(-1, queues, 0))   \
    X(wait_any_device_bad_queue, INVALID_ASYNC, acc_wait_any_device(1, queues + 1, 0))  \
    X(wait_any_device_no_device, DEVICE_UNAVAILABLE, acc_wait_any_device(1, queues, 99)) \
    X(set_default_async, NO_ERROR, acc_set_default_async(5); CHECK_EQ(acc_get_default_async(), 5)) \
    X(set_default_async_bad, INVALID_ASYNC, acc_set_default_async(-3))

ERROR_CASES(CASES)
