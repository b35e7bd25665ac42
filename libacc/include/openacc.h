/* OpenACC's routines for C and C++ (OpenACC 3.3, chapter 3 and appendix A), as libacc.so provides them.

   Takes the place of GCC's header: constants have GCC's values and routines GCC's shapes, so that either header
   may be used with either library. What GCC's lacks is marked "Accord", and
   has no exception specification, so that programs that declare it themselves go on compiling. */

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

/* Device types (3.1, A.1). */
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
    acc_property_driver = 0x10003,
    acc_property_int_size_ = 0x7fffffff
} acc_device_property_t;

/* Async-arguments with a meaning of their own (2.14.3, 2.16). */
typedef enum acc_async_t {
    acc_async_noval = -1,
    acc_async_sync = -2,
    acc_async_default = -1 /* Accord: for acc_set_default_async, back to the initial value */
} acc_async_t;

/* Choosing devices (3.2.1 to 3.2.5). */
int acc_get_num_devices(acc_device_t /* dev_type */) ACCORD_NOTHROW;
void acc_set_device_type(acc_device_t /* dev_type */) ACCORD_NOTHROW;
acc_device_t acc_get_device_type(void) ACCORD_NOTHROW;
void acc_set_device_num(int /* dev_num */, acc_device_t /* dev_type */) ACCORD_NOTHROW;
int acc_get_device_num(acc_device_t /* dev_type */) ACCORD_NOTHROW;

/* What a device is (3.2.6): 0 and NULL for what is unknown. */
size_t acc_get_property(int /* dev_num */, acc_device_t, acc_device_property_t) ACCORD_NOTHROW;
const char *acc_get_property_string(int /* dev_num */, acc_device_t, acc_device_property_t) ACCORD_NOTHROW;

/* Starting and ending devices (3.2.7, 3.2.8). */
void acc_init(acc_device_t /* dev_type */) ACCORD_NOTHROW;
void acc_init_device(int /* dev_num */, acc_device_t /* dev_type */); /* Accord */
void acc_shutdown(acc_device_t /* dev_type */) ACCORD_NOTHROW;
void acc_shutdown_device(int /* dev_num */, acc_device_t /* dev_type */); /* Accord */

/* Queues: whether they are done (3.2.9). */
int acc_async_test(int /* wait_arg */) ACCORD_NOTHROW;
int acc_async_test_device(int /* wait_arg */, int /* dev_num */); /* Accord */
int acc_async_test_all(void) ACCORD_NOTHROW;
int acc_async_test_all_device(int /* dev_num */); /* Accord */

/* Waiting for queues (3.2.10, 3.2.12). acc_async_wait and acc_async_wait_all are names of OpenACC 1.0. The routines
   with "any" give the place in the list of a queue that is done. */
void acc_wait(int /* wait_arg */) ACCORD_NOTHROW;
void acc_wait_device(int /* wait_arg */, int /* dev_num */); /* Accord */
int acc_wait_any(int /* count */, int * /* wait_args */); /* Accord */
int acc_wait_any_device(int /* count */, int * /* wait_args */, int /* dev_num */); /* Accord */
void acc_wait_all(void) ACCORD_NOTHROW;
void acc_wait_all_device(int /* dev_num */); /* Accord */
void acc_async_wait(int /* wait_arg */) ACCORD_NOTHROW;
void acc_async_wait_all(void) ACCORD_NOTHROW;

/* Queues that wait for queues (3.2.11). */
void acc_wait_async(int /* wait_arg */, int /* async_arg */) ACCORD_NOTHROW;
void acc_wait_device_async(int /* wait_arg */, int /* async_arg */, int /* dev_num */); /* Accord */
void acc_wait_all_async(int /* async_arg */) ACCORD_NOTHROW;
void acc_wait_all_device_async(int /* async_arg */, int /* dev_num */); /* Accord */

/* The queue of "async" without an argument (3.2.13, 3.2.14), for this thread. */
int acc_get_default_async(void); /* Accord */
void acc_set_default_async(int /* async_arg */); /* Accord */

/* Whether this code runs on a device of the type (3.2.15). May be called in regions. */
#ifdef __cplusplus
int acc_on_device(int /* dev_type */) ACCORD_NOTHROW;
#else
int acc_on_device(acc_device_t /* dev_type */) ACCORD_NOTHROW;
#endif
#if defined(__GNUC__) && defined(_OPENACC)
/* Optimized, GCC answers a function of this name itself: as the host, also on CPU devices. One of another name it calls. */
#pragma acc routine seq
#ifdef __cplusplus
int accord_on_device(int /* dev_type */) ACCORD_NOTHROW __asm__("acc_on_device");
#else
int accord_on_device(acc_device_t /* dev_type */) __asm__("acc_on_device") ACCORD_NOTHROW;
#endif
#define acc_on_device(dev_type) accord_on_device(dev_type)
#endif

/* Device memory (3.2.16, 3.2.17). */
void *acc_malloc(size_t) ACCORD_NOTHROW;
void acc_free(void *) ACCORD_NOTHROW;

/* Data by host address (3.2.18): present, or copied in or created. Names with "present_or" and "p" are
   those of OpenACC 2.0. */
void *acc_copyin(void *, size_t) ACCORD_NOTHROW;
void *acc_present_or_copyin(void *, size_t) ACCORD_NOTHROW;
void *acc_pcopyin(void *, size_t) ACCORD_NOTHROW;
void *acc_create(void *, size_t) ACCORD_NOTHROW;
void *acc_present_or_create(void *, size_t) ACCORD_NOTHROW;
void *acc_pcreate(void *, size_t) ACCORD_NOTHROW;
void acc_copyin_async(void *, size_t, int /* async_arg */) ACCORD_NOTHROW;
void acc_create_async(void *, size_t, int /* async_arg */) ACCORD_NOTHROW;

/* Copied out or deleted with the last reference (3.2.19); with "finalize", now. */
void acc_copyout(void *, size_t) ACCORD_NOTHROW;
void acc_copyout_async(void *, size_t, int /* async_arg */) ACCORD_NOTHROW;
void acc_copyout_finalize(void *, size_t) ACCORD_NOTHROW;
void acc_copyout_finalize_async(void *, size_t, int /* async_arg */) ACCORD_NOTHROW;
void acc_delete(void *, size_t) ACCORD_NOTHROW;
void acc_delete_async(void *, size_t, int /* async_arg */) ACCORD_NOTHROW;
void acc_delete_finalize(void *, size_t) ACCORD_NOTHROW;
void acc_delete_finalize_async(void *, size_t, int /* async_arg */) ACCORD_NOTHROW;

/* Copies of present data (3.2.20). */
void acc_update_device(void *, size_t) ACCORD_NOTHROW;
void acc_update_device_async(void *, size_t, int /* async_arg */) ACCORD_NOTHROW;
void acc_update_self(void *, size_t) ACCORD_NOTHROW;
void acc_update_self_async(void *, size_t, int /* async_arg */) ACCORD_NOTHROW;

/* The present table (3.2.21 to 3.2.25). */
void acc_map_data(void *, void *, size_t) ACCORD_NOTHROW;
void acc_unmap_data(void *) ACCORD_NOTHROW;
void *acc_deviceptr(void *) ACCORD_NOTHROW;
void *acc_hostptr(void *) ACCORD_NOTHROW;
int acc_is_present(void *, size_t) ACCORD_NOTHROW;

/* Copies by device address (3.2.26 to 3.2.28): target, source, bytes. */
void acc_memcpy_to_device(void *, void *, size_t) ACCORD_NOTHROW;
void acc_memcpy_to_device_async(void *, void *, size_t, int /* async_arg */) ACCORD_NOTHROW;
void acc_memcpy_from_device(void *, void *, size_t) ACCORD_NOTHROW;
void acc_memcpy_from_device_async(void *, void *, size_t, int /* async_arg */) ACCORD_NOTHROW;
void acc_memcpy_device(void *, void *, size_t); /* Accord */
void acc_memcpy_device_async(void *, void *, size_t, int /* async_arg */); /* Accord */

/* Pointers on the device (3.2.29): the argument is the address of the pointer. */
void acc_attach(void **) ACCORD_NOTHROW;
void acc_attach_async(void **, int /* async_arg */) ACCORD_NOTHROW;
void acc_detach(void **) ACCORD_NOTHROW;
void acc_detach_async(void **, int /* async_arg */) ACCORD_NOTHROW;
void acc_detach_finalize(void **) ACCORD_NOTHROW;
void acc_detach_finalize_async(void **, int /* async_arg */) ACCORD_NOTHROW;

/* From device to device (3.2.30): host addresses, whose copies on the two devices are meant. Accord. */
void acc_memcpy_d2d(void * /* dest */, void * /* src */, size_t, int /* dev_num_dest */,
                    int /* dev_num_src */);
void acc_memcpy_d2d_async(void * /* dest */, void * /* src */, size_t, int /* dev_num_dest */,
                          int /* dev_num_src */, int /* async_arg_src */);

/* CUDA's own objects (A.2.1). */
void *acc_get_current_cuda_device(void) ACCORD_NOTHROW;
void *acc_get_current_cuda_context(void) ACCORD_NOTHROW;
void *acc_get_cuda_stream(int /* async_arg */) ACCORD_NOTHROW;
int acc_set_cuda_stream(int /* async_arg */, void * /* stream */) ACCORD_NOTHROW;

#ifdef __cplusplus
}

/* acc_on_device with C++'s own type of the argument (3.2.15). */
#pragma acc routine seq
inline int (acc_on_device)(acc_device_t kind) ACCORD_NOTHROW
{
    return acc_on_device(static_cast<int>(kind));
}
#if defined(__GNUC__) && defined(_OPENACC)
#pragma acc routine seq
inline int accord_on_device(acc_device_t kind) ACCORD_NOTHROW
{
    return accord_on_device(static_cast<int>(kind));
}
#endif
#endif

#endif
#endif
