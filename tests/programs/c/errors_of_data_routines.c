// The errors of 3.2.18 (copyin, create), each in a process of its own.
// EXPECT device-memory
#include "error_case.h"

enum { N = 100 };
static double a[N];

#define ENTERS(X, name, call, async_call)                                                   \
    X(name##_null, INVALID_NULL_POINTER, call(NULL, 8))                                     \
    X(name##_null_without_bytes, NO_ERROR, call(NULL, 0))                                   \
    X(name##_partly, PARTLY_PRESENT, acc_create(a, 40); call(a, sizeof a))                  \
    X(name##_inside, NO_ERROR, acc_create(a, sizeof a); call(a + 5, 40))                    \
    X(name##_twice, NO_ERROR, call(a, sizeof a); call(a, sizeof a))                         \
    X(name##_too_much, OUT_OF_MEMORY, call(a, (size_t)1 << 46))                             \
    X(name##_async_null, INVALID_NULL_POINTER, async_call(NULL, 8, 1))                      \
    X(name##_async_partly, PARTLY_PRESENT, acc_create(a, 40); async_call(a, sizeof a, 1))   \
    X(name##_async_bad_queue, INVALID_ASYNC, async_call(a, sizeof a, -5))                   \
    X(name##_async_noval, NO_ERROR, async_call(a, sizeof a, acc_async_noval))

#define CASES(X)                                                                            \
    ENTERS(X, copyin, acc_copyin, acc_copyin_async)                                         \
    ENTERS(X, create, acc_create, acc_create_async)

ERROR_CASES(CASES)
