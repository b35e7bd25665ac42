// The errors of data clauses (2.7.3), async and wait clauses (2.16) and regions, each in a process of its own.
// EXPECT device-memory
#include "error_case.h"

enum { N = 100 };
static double a[N], b[N];
static int queue = -6;
static double *null;
static int n = 10;

#define DO(text) _Pragma(text)

#define CASES(X)                                                                                        \
    X(present_absent, NOT_PRESENT, DO("acc data present(a)") { a[0] = 1; })                             \
    X(present_partly, PARTLY_PRESENT, acc_create(a, 8); DO("acc data present(a)") { a[0] = 1; })        \
    X(parallel_present_absent, NOT_PRESENT, DO("acc parallel present(a)") { a[0] = 1; })                \
    X(parallel_default_present, NOT_PRESENT, DO("acc parallel default(present)") { a[0] = b[0]; })      \
    X(copy_partly, PARTLY_PRESENT, acc_create(a, 8); DO("acc parallel copy(a)") { a[0] = 1; })          \
    X(create_partly, PARTLY_PRESENT, acc_create(a, 8); DO("acc data create(a)") { a[0] = 1; })          \
    X(copyout_partly, PARTLY_PRESENT, acc_create(a, 8); DO("acc parallel copyout(a)") { a[0] = 1; })    \
    X(enter_partly, PARTLY_PRESENT, acc_create(a, 8); DO("acc enter data copyin(a)"))                   \
    X(exit_partly, PARTLY_PRESENT, acc_create(a, 8); DO("acc exit data copyout(a)"))                    \
    X(update_absent, NOT_PRESENT, DO("acc update device(a)"))                                           \
    X(update_if_present, NO_ERROR, DO("acc update device(a) if_present"))                               \
    X(update_partly, PARTLY_PRESENT, acc_create(a, 8); DO("acc update self(a)"))                        \
    X(use_device_absent, NOT_PRESENT, DO("acc host_data use_device(a)") { n = a[0] != 0; })             \
    X(parallel_bad_async, INVALID_ASYNC, DO("acc parallel async(queue) copy(a)") { a[0] = 1; })         \
    X(parallel_bad_wait, INVALID_ASYNC, DO("acc parallel wait(queue) copy(a)") { a[0] = 1; })           \
    X(enter_bad_async, INVALID_ASYNC, DO("acc enter data copyin(a) async(queue)"))                      \
    X(enter_bad_wait, INVALID_ASYNC, DO("acc enter data copyin(a) wait(queue)"))                        \
    X(exit_bad_async, INVALID_ASYNC, acc_create(a, sizeof a); DO("acc exit data delete(a) async(queue)")) \
    X(update_bad_async, INVALID_ASYNC, acc_create(a, sizeof a); DO("acc update self(a) async(queue)"))  \
    X(wait_bad_queue, INVALID_ASYNC, DO("acc wait(queue)"))                                             \
    X(wait_bad_async, INVALID_ASYNC, DO("acc wait(1) async(queue)"))                                    \
    X(region_fails, EXECUTION, DO("acc parallel deviceptr(null)") { null[0] = 1; })                     \
    X(region_fails_later, EXECUTION, DO("acc parallel deviceptr(null) async(1)") { null[0] = 1; }       \
      acc_wait(1))

ERROR_CASES(CASES)
