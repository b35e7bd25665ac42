/* OpenACC's routines for C and C++, as libacc.so provides them.

   Compatible with the header of GCC: the same constants and the same shapes, so that either may
   be used for either library. What GCC's has not is marked "Accord". */

#ifndef ACCORD_OPENACC_H
#define ACCORD_OPENACC_H 1
/* GCC's own header has nothing to add. */
#ifndef _OPENACC_H
#define _OPENACC_H 1

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined __cplusplus && __cplusplus >= 201103L
#define ACCORD_NOTHROW noexcept
#elif defined __cplusplus
#define ACCORD_NOTHROW throw()
#elif defined __GNUC__
#define ACCORD_NOTHROW __attribute__((__nothrow__))
#else
#define ACCORD_NOTHROW
#endif

/* Device types (3.1 and appendix A). */
typedef enum acc_device_t {
    acc_device_current = -1,
    acc_device_none = 0,
    acc_device_default = 1,
    acc_device_host = 2,
    acc_device_not_host = 4,
    acc_device_nvidia = 5,
    acc_device_radeon = 8,
    acc_device_cpu = 64, /* Accord: worker processes on CPU cores */
    acc_device_int_size_ = 0x7fffffff
} acc_device_t;

/* What acc_get_property and acc_get_property_string tell (3.2.6). */
typedef enum acc_device_property_t {
    acc_property_memory = 1,
    acc_property_free_memory = 2,
    acc_property_name = 0x10001,
    acc_property_vendor = 0x10002,
    acc_property_driver = 0x10003
} acc_device_property_t;

/* Async-arguments with a meaning of their own (2.16). */
typedef enum acc_async_t {
    acc_async_noval = -1,
    acc_async_sync = -2
} acc_async_t;

/* Devices (3.2.1 to 3.2.8, 3.2.17). */
int acc_get_num_devices(acc_device_t) ACCORD_NOTHROW;
void acc_set_device_type(acc_device_t) ACCORD_NOTHROW;
acc_device_t acc_get_device_type(void) ACCORD_NOTHROW;
void acc_set_device_num(int, acc_device_t) ACCORD_NOTHROW;
int acc_get_device_num(acc_device_t) ACCORD_NOTHROW;
size_t acc_get_property(int, acc_device_t, acc_device_property_t) ACCORD_NOTHROW;
const char *acc_get_property_string(int, acc_device_t, acc_device_property_t) ACCORD_NOTHROW;
void acc_init(acc_device_t) ACCORD_NOTHROW;
void acc_shutdown(acc_device_t) ACCORD_NOTHROW;
#ifdef __cplusplus
int acc_on_device(int) ACCORD_NOTHROW;
#else
int acc_on_device(acc_device_t) ACCORD_NOTHROW;
#endif

/* Queues (3.2.9 to 3.2.14). */
int acc_async_test(int) ACCORD_NOTHROW;
int acc_async_test_all(void) ACCORD_NOTHROW;
void acc_wait(int) ACCORD_NOTHROW;
void acc_async_wait(int) ACCORD_NOTHROW;
void acc_wait_async(int waited, int queue) ACCORD_NOTHROW;
void acc_wait_all(void) ACCORD_NOTHROW;
void acc_async_wait_all(void) ACCORD_NOTHROW;
void acc_wait_all_async(int) ACCORD_NOTHROW;
int acc_get_default_async(void) ACCORD_NOTHROW;  /* Accord */
void acc_set_default_async(int) ACCORD_NOTHROW; /* Accord */

/* Data by host address (3.2.20 to 3.2.25). */
void *acc_copyin(void *, size_t) ACCORD_NOTHROW;
void *acc_present_or_copyin(void *, size_t) ACCORD_NOTHROW;
void *acc_pcopyin(void *, size_t) ACCORD_NOTHROW;
void *acc_create(void *, size_t) ACCORD_NOTHROW;
void *acc_present_or_create(void *, size_t) ACCORD_NOTHROW;
void *acc_pcreate(void *, size_t) ACCORD_NOTHROW;
void acc_copyout(void *, size_t) ACCORD_NOTHROW;
void acc_copyout_finalize(void *, size_t) ACCORD_NOTHROW;
void acc_delete(void *, size_t) ACCORD_NOTHROW;
void acc_delete_finalize(void *, size_t) ACCORD_NOTHROW;
void acc_update_device(void *, size_t) ACCORD_NOTHROW;
void acc_update_self(void *, size_t) ACCORD_NOTHROW;
int acc_is_present(void *, size_t) ACCORD_NOTHROW;
void acc_copyin_async(void *, size_t, int) ACCORD_NOTHROW;
void acc_create_async(void *, size_t, int) ACCORD_NOTHROW;
void acc_copyout_async(void *, size_t, int) ACCORD_NOTHROW;
void acc_copyout_finalize_async(void *, size_t, int) ACCORD_NOTHROW;
void acc_delete_async(void *, size_t, int) ACCORD_NOTHROW;
void acc_delete_finalize_async(void *, size_t, int) ACCORD_NOTHROW;
void acc_update_device_async(void *, size_t, int) ACCORD_NOTHROW;
void acc_update_self_async(void *, size_t, int) ACCORD_NOTHROW;

/* Device memory and copies (3.2.18, 3.2.19, 3.2.26 to 3.2.30). */
void *acc_malloc(size_t) ACCORD_NOTHROW;
void acc_free(void *) ACCORD_NOTHROW;
void acc_memcpy_to_device(void *device, void *host, size_t) ACCORD_NOTHROW;
void acc_memcpy_to_device_async(void *device, void *host, size_t, int) ACCORD_NOTHROW;
void acc_memcpy_from_device(void *host, void *device, size_t) ACCORD_NOTHROW;
void acc_memcpy_from_device_async(void *host, void *device, size_t, int) ACCORD_NOTHROW;
void acc_memcpy_device(void *dst, void *src, size_t) ACCORD_NOTHROW;            /* Accord */
void acc_memcpy_device_async(void *dst, void *src, size_t, int) ACCORD_NOTHROW; /* Accord */
/* Accord: host addresses whose copies on the two devices are meant. */
void acc_memcpy_d2d(void *dst, void *src, size_t, int dev_dst, int dev_src) ACCORD_NOTHROW;
void acc_memcpy_d2d_async(void *dst, void *src, size_t, int dev_dst, int dev_src, int queue)
    ACCORD_NOTHROW;

/* The present table and pointers (3.2.29, 3.2.31 to 3.2.33). */
void acc_map_data(void *host, void *device, size_t) ACCORD_NOTHROW;
void acc_unmap_data(void *) ACCORD_NOTHROW;
void *acc_deviceptr(void *) ACCORD_NOTHROW;
void *acc_hostptr(void *) ACCORD_NOTHROW;
void acc_attach(void **) ACCORD_NOTHROW;
void acc_attach_async(void **, int) ACCORD_NOTHROW;
void acc_detach(void **) ACCORD_NOTHROW;
void acc_detach_async(void **, int) ACCORD_NOTHROW;
void acc_detach_finalize(void **) ACCORD_NOTHROW;
void acc_detach_finalize_async(void **, int) ACCORD_NOTHROW;

/* CUDA (A.2.1). */
void *acc_get_current_cuda_device(void) ACCORD_NOTHROW;
void *acc_get_current_cuda_context(void) ACCORD_NOTHROW;
void *acc_get_cuda_stream(int) ACCORD_NOTHROW;
int acc_set_cuda_stream(int, void *) ACCORD_NOTHROW;

#ifdef __cplusplus
}

#pragma acc routine seq
inline int acc_on_device(acc_device_t kind) ACCORD_NOTHROW
{
    return acc_on_device(static_cast<int>(kind));
}
#endif

#endif
#endif
