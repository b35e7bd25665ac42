// The errors of 3.2.21 (map) to 3.2.25 (is_present) and 3.2.29 (attach), each in a process of its own.
// EXPECT device-memory
#include "error_case.h"

enum { N = 100 };
static double a[N], b[N];
static double *p = a;

#define MAP(bytes) acc_map_data(a, acc_malloc(sizeof a), bytes)

#define CASES(X)                                                                                        \
    X(map, NO_ERROR, MAP(sizeof a); CHECK(acc_is_present(a, sizeof a)))                                 \
    X(map_null, INVALID_NULL_POINTER, acc_map_data(NULL, acc_malloc(8), 8))                             \
    X(map_to_null, INVALID_NULL_POINTER, acc_map_data(a, NULL, 8))                                      \
    X(map_no_bytes, INVALID_ARGUMENT, MAP(0))                                                           \
    X(map_twice, PRESENT, MAP(sizeof a); MAP(sizeof a))                                                 \
    X(map_present, PRESENT, acc_create(a, sizeof a); MAP(sizeof a))                                     \
    X(map_partly_present, PRESENT, acc_create(a, 8); MAP(sizeof a))                                     \
    X(unmap_null, INVALID_NULL_POINTER, acc_unmap_data(NULL))                                           \
    X(unmap_absent, INVALID_ARGUMENT, acc_unmap_data(a))                                                \
    X(unmap_of_created, INVALID_ARGUMENT, acc_create(a, sizeof a); acc_unmap_data(a))                   \
    X(unmap_inside, INVALID_ARGUMENT, MAP(sizeof a); acc_unmap_data(a + 1))                             \
    X(unmap_twice, INVALID_ARGUMENT, MAP(sizeof a); acc_unmap_data(a); acc_unmap_data(a))               \
    X(unmap_in_region, PRESENT, MAP(sizeof a); _Pragma("acc data present(a)") { acc_unmap_data(a); })   \
    X(deviceptr_absent, NO_ERROR, CHECK(acc_deviceptr(b) == NULL))                                      \
    X(deviceptr_null, NO_ERROR, CHECK(acc_deviceptr(NULL) == NULL))                                     \
    X(hostptr_null, NO_ERROR, CHECK(acc_hostptr(NULL) == NULL))                                         \
    X(hostptr_unmapped, NO_ERROR, CHECK(acc_hostptr(acc_malloc(8)) == NULL))                            \
    X(is_present_null, NO_ERROR, CHECK(!acc_is_present(NULL, 8)))                                       \
    X(is_present_absent, NO_ERROR, CHECK(!acc_is_present(b, 8)))                                        \
    X(is_present_partly, NO_ERROR, acc_create(a, 8); CHECK(!acc_is_present(a, 16)))                     \
    X(attach_null, INVALID_NULL_POINTER, acc_attach(NULL))                                              \
    X(attach_absent, NO_ERROR, acc_attach((void **)&p))                                                 \
    X(attach_async_null, INVALID_NULL_POINTER, acc_attach_async(NULL, 1))                               \
    X(attach_async_bad_queue, INVALID_ASYNC, acc_attach_async((void **)&p, -9))                         \
    X(detach_null, INVALID_NULL_POINTER, acc_detach(NULL))                                              \
    X(detach_unattached, NO_ERROR, acc_copyin(&p, sizeof p); acc_detach((void **)&p))                   \
    X(detach_async_bad_queue, INVALID_ASYNC, acc_detach_async((void **)&p, -9))                         \
    X(detach_finalize_null, INVALID_NULL_POINTER, acc_detach_finalize(NULL))                            \
    X(detach_finalize_async_null, INVALID_NULL_POINTER, acc_detach_finalize_async(NULL, 1))             \
    X(detach_finalize_async_bad_queue, INVALID_ASYNC, acc_detach_finalize_async((void **)&p, -9))

ERROR_CASES(CASES)
