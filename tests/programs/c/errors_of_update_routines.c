// The errors of 3.2.20 (update), each in a process of its own.
// EXPECT device-memory
#include "error_case.h"

enum { N = 100 };
static double a[N];

#define UPDATES(X, name, call, async_call)                                                  \
    X(name##_null, INVALID_NULL_POINTER, call(NULL, 8))                                     \
    X(name##_null_without_bytes, NO_ERROR, call(NULL, 0))                                   \
    X(name##_absent, NOT_PRESENT, call(a, sizeof a))                                        \
    X(name##_partly, PARTLY_PRESENT, acc_create(a, 40); call(a, sizeof a))                  \
    X(name##_present, NO_ERROR, acc_create(a, sizeof a); call(a + 1, 16))                   \
    X(name##_async_absent, NOT_PRESENT, async_call(a, sizeof a, 1))                         \
    X(name##_async_partly, PARTLY_PRESENT, acc_create(a, 40); async_call(a, sizeof a, 1))   \
    X(name##_async_bad_queue, INVALID_ASYNC, acc_create(a, sizeof a); async_call(a, sizeof a, -5))

#define CASES(X)                                                                            \
    UPDATES(X, update_device, acc_update_device, acc_update_device_async)                   \
    UPDATES(X, update_self, acc_update_self, acc_update_self_async)

ERROR_CASES(CASES)
