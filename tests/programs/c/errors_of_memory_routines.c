// The errors of 3.2.16 (malloc), 3.2.17 (free) and 3.2.26 to 3.2.28 (memcpy), each in a process of its own.
// EXPECT device-memory
#include "error_case.h"

#pragma weak acc_memcpy_device
#pragma weak acc_memcpy_device_async
extern void acc_memcpy_device(void *, void *, size_t), acc_memcpy_device_async(void *, void *, size_t, int);

static double a[10];

#define COPIES(X, name, call, async_call)                                                               \
    X(name##_null_first, INVALID_NULL_POINTER, call(NULL, acc_malloc(8), 8))                            \
    X(name##_null_second, INVALID_NULL_POINTER, call(acc_malloc(8), NULL, 8))                           \
    X(name##_null_without_bytes, NO_ERROR, call(NULL, NULL, 0))                                         \
    X(name##_async_null_first, INVALID_NULL_POINTER, async_call(NULL, acc_malloc(8), 8, 1))             \
    X(name##_async_null_second, INVALID_NULL_POINTER, async_call(acc_malloc(8), NULL, 8, 1))            \
    X(name##_async_bad_queue, INVALID_ASYNC, async_call(acc_malloc(8), acc_malloc(8), 8, -3))

#define CASES(X)                                                                                        \
    X(malloc_nothing, NO_ERROR, CHECK(acc_malloc(0) == NULL))                                           \
    X(free_null, NO_ERROR, acc_free(NULL))                                                              \
    X(free_twice, INVALID_ARGUMENT, void *d = acc_malloc(8); acc_free(d); acc_free(d))                  \
    X(free_inside, INVALID_ARGUMENT, acc_free((char *)acc_malloc(80) + 8))                              \
    COPIES(X, to_device, acc_memcpy_to_device, acc_memcpy_to_device_async)                              \
    COPIES(X, from_device, acc_memcpy_from_device, acc_memcpy_from_device_async)                        \
    COPIES(X, within, acc_memcpy_device, acc_memcpy_device_async)                                       \
    X(to_device_too_long, INVALID_ARGUMENT, acc_memcpy_to_device(acc_malloc(8), a, (size_t)1 << 40))

ERROR_CASES(CASES)
