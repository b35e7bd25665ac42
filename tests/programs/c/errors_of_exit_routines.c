// The errors of 3.2.19 (copyout, delete), each in a process of its own. Absent data and null are left alone, as GCC's runtime does;
// the specification has acc_error_not_present and acc_error_invalid_null_pointer.
// EXPECT device-memory
#include "error_case.h"

enum { N = 100 };
static double a[N];

#define EXITS(X, name, call, async_call)                                                    \
    X(name##_null, NO_ERROR, call(NULL, 8))                                     \
    X(name##_null_without_bytes, NO_ERROR, call(NULL, 0))                                   \
    X(name##_absent, NO_ERROR, call(a, sizeof a))                                           \
    X(name##_partly, PARTLY_PRESENT, acc_create(a, 40); call(a, sizeof a))                  \
    X(name##_present, NO_ERROR, acc_create(a, sizeof a); call(a, sizeof a))                 \
    X(name##_async_null, NO_ERROR, async_call(NULL, 8, 1))                      \
    X(name##_async_partly, PARTLY_PRESENT, acc_create(a, 40); async_call(a, sizeof a, 1))   \
    X(name##_async_bad_queue, INVALID_ASYNC, acc_create(a, sizeof a); async_call(a, sizeof a, -5))

#define CASES(X)                                                                            \
    EXITS(X, copyout, acc_copyout, acc_copyout_async)                                       \
    EXITS(X, copyout_finalize, acc_copyout_finalize, acc_copyout_finalize_async)            \
    EXITS(X, delete, acc_delete, acc_delete_async)                                          \
    EXITS(X, delete_finalize, acc_delete_finalize, acc_delete_finalize_async)

ERROR_CASES(CASES)
