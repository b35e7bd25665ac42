// The errors of 3.2.18 (copyin, create), 3.2.19 (copyout, delete) and 3.2.20 (update), each in a process of its own.
// Absent data and null are left alone by copyout and delete, as GCC's runtime does; the specification has acc_error_not_present
// and acc_error_invalid_null_pointer.
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

#define EXITS(X, name, call, async_call)                                                    \
    X(name##_null, NO_ERROR, call(NULL, 8))                                     \
    X(name##_null_without_bytes, NO_ERROR, call(NULL, 0))                                   \
    X(name##_absent, NO_ERROR, call(a, sizeof a))                                           \
    X(name##_partly, PARTLY_PRESENT, acc_create(a, 40); call(a, sizeof a))                  \
    X(name##_present, NO_ERROR, acc_create(a, sizeof a); call(a, sizeof a))                 \
    X(name##_async_null, NO_ERROR, async_call(NULL, 8, 1))                      \
    X(name##_async_partly, PARTLY_PRESENT, acc_create(a, 40); async_call(a, sizeof a, 1))   \
    X(name##_async_bad_queue, INVALID_ASYNC, acc_create(a, sizeof a); async_call(a, sizeof a, -5))

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
    ENTERS(X, copyin, acc_copyin, acc_copyin_async)                                         \
    ENTERS(X, create, acc_create, acc_create_async)                                         \
    EXITS(X, copyout, acc_copyout, acc_copyout_async)                                       \
    EXITS(X, copyout_finalize, acc_copyout_finalize, acc_copyout_finalize_async)            \
    EXITS(X, delete, acc_delete, acc_delete_async)                                          \
    EXITS(X, delete_finalize, acc_delete_finalize, acc_delete_finalize_async)               \
    UPDATES(X, update_device, acc_update_device, acc_update_device_async)                   \
    UPDATES(X, update_self, acc_update_self, acc_update_self_async)

ERROR_CASES(CASES)
