/* OpenACC's profiling and error callback interface for C and C++ (OpenACC 3.3, chapter 5), as libacc.so
   provides it.

   Takes the place of GCC's header: what both have, has GCC's values, sizes and offsets. What GCC's lacks is
   marked "Accord". */

#ifndef ACCORD_ACC_PROF_H
#define ACCORD_ACC_PROF_H 1
/* GCC's own header has nothing to add. */
#ifndef _ACC_PROF_H
#define _ACC_PROF_H 1

#include <openacc.h>
#include <stddef.h>

#ifndef ACCORD_NOTHROW /* with another openacc.h */
#if defined __cplusplus && __cplusplus >= 201103L
#define ACCORD_NOTHROW noexcept
#elif defined __cplusplus
#define ACCORD_NOTHROW throw()
#elif defined __GNUC__
#define ACCORD_NOTHROW __attribute__((__nothrow__))
#else
#define ACCORD_NOTHROW
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Events (5.1). */
typedef enum acc_event_t {
    acc_ev_none = 0,
    acc_ev_device_init_start = 1,
    acc_ev_device_init_end = 2,
    acc_ev_device_shutdown_start = 3,
    acc_ev_device_shutdown_end = 4,
    acc_ev_runtime_shutdown = 5,
    acc_ev_create = 6,
    acc_ev_delete = 7,
    acc_ev_alloc = 8,
    acc_ev_free = 9,
    acc_ev_enter_data_start = 10,
    acc_ev_enter_data_end = 11,
    acc_ev_exit_data_start = 12,
    acc_ev_exit_data_end = 13,
    acc_ev_update_start = 14,
    acc_ev_update_end = 15,
    acc_ev_compute_construct_start = 16,
    acc_ev_compute_construct_end = 17,
    acc_ev_enqueue_launch_start = 18,
    acc_ev_enqueue_launch_end = 19,
    acc_ev_enqueue_upload_start = 20,
    acc_ev_enqueue_upload_end = 21,
    acc_ev_enqueue_download_start = 22,
    acc_ev_enqueue_download_end = 23,
    acc_ev_wait_start = 24,
    acc_ev_wait_end = 25,
    acc_ev_error = 100, /* Accord: errors of the runtime, before it ends the program */
    acc_ev_last = 101   /* 26 in GCC's header, which has no errors */
} acc_event_t;

/* The first argument of callbacks (5.2.1). acc_prof_info is its name before OpenACC 3.2. */
typedef struct acc_callback_info {
    acc_event_t event_type;
    int valid_bytes;
    int version;
    acc_device_t device_type;
    int device_number;
    int thread_id;
    signed long int async;
    signed long int async_queue;
    const char *src_file;
    const char *func_name;
    int line_no;
    int end_line_no;
    int func_line_no;
    int func_end_line_no;
} acc_callback_info;

#define acc_prof_info acc_callback_info

/* What an event belongs to (5.2.2). */
typedef enum acc_construct_t {
    acc_construct_parallel = 0,
    acc_construct_kernels = 1,
    acc_construct_loop = 2,
    acc_construct_data = 3,
    acc_construct_enter_data = 4,
    acc_construct_exit_data = 5,
    acc_construct_host_data = 6,
    acc_construct_atomic = 7,
    acc_construct_declare = 8,
    acc_construct_init = 9,
    acc_construct_shutdown = 10,
    acc_construct_set = 11,
    acc_construct_update = 12,
    acc_construct_routine = 13,
    acc_construct_wait = 14,
    acc_construct_runtime_api = 15,
    acc_construct_serial = 16
} acc_construct_t;

/* Of create, delete, alloc, free, enqueue_upload and enqueue_download events (5.2.2). */
typedef struct acc_data_event_info {
    acc_event_t event_type;
    int valid_bytes;
    acc_construct_t parent_construct;
    int implicit;
    void *tool_info;
    const char *var_name;
    size_t bytes;
    const void *host_ptr;
    const void *device_ptr;
} acc_data_event_info;

/* Of enqueue_launch events (5.2.2). */
typedef struct acc_launch_event_info {
    acc_event_t event_type;
    int valid_bytes;
    acc_construct_t parent_construct;
    int implicit;
    void *tool_info;
    const char *kernel_name;
    size_t num_gangs, num_workers, vector_length;
} acc_launch_event_info;

/* Errors (Accord; the names are those of chapter 3's "Errors"). */
typedef enum acc_error_t {
    acc_error_none = 0,
    acc_error_other = 1,
    acc_error_system = 2,
    acc_error_execution = 3,
    acc_error_device_init = 4,
    acc_error_device_shutdown = 5,
    acc_error_device_unavailable = 6,
    acc_error_device_type_unavailable = 7,
    acc_error_wrong_device_type = 8,
    acc_error_out_of_memory = 9,
    acc_error_not_present = 10,
    acc_error_partly_present = 11,
    acc_error_present = 12,
    acc_error_invalid_argument = 13,
    acc_error_invalid_async = 14,
    acc_error_invalid_null_pointer = 15,
    acc_error_invalid_data_section = 16,
    acc_error_implementation_defined = 100
} acc_error_t;

/* Of error events (Accord). */
typedef struct acc_error_event_info {
    acc_event_t event_type;
    int valid_bytes;
    acc_construct_t parent_construct;
    int implicit;
    void *tool_info;
    acc_error_t error_code;
    const char *error_message;
    size_t runtime_info;
} acc_error_event_info;

/* Of all other events (5.2.2). */
typedef struct acc_other_event_info {
    acc_event_t event_type;
    int valid_bytes;
    acc_construct_t parent_construct;
    int implicit;
    void *tool_info;
} acc_other_event_info;

/* The second argument of callbacks (5.2.2). */
typedef union acc_event_info {
    acc_event_t event_type;
    acc_data_event_info data_event;
    acc_launch_event_info launch_event;
    acc_error_event_info error_event; /* Accord */
    acc_other_event_info other_event;
} acc_event_info;

typedef enum acc_device_api {
    acc_device_api_none = 0,
    acc_device_api_cuda = 1,
    acc_device_api_opencl = 2,
    acc_device_api_coi = 3,
    acc_device_api_other = 4
} acc_device_api;

/* The third argument of callbacks (5.2.3). */
typedef struct acc_api_info {
    acc_device_api device_api;
    int valid_bytes;
    acc_device_t device_type;
    int vendor;
    const void *device_handle;
    const void *context_handle;
    const void *async_handle;
} acc_api_info;

/* A callback (5.3). It may do anything, throw included. */
typedef void (*acc_callback)(acc_callback_info *, acc_event_info *, acc_api_info *);
typedef acc_callback acc_prof_callback;

typedef enum acc_register_t {
    acc_reg = 0,
    acc_toggle = 1,
    acc_toggle_per_thread = 2
} acc_register_t;

/* Registration (5.3, 5.4). The names with "prof" are those before OpenACC 3.2. */
typedef void (*acc_prof_reg)(acc_event_t, acc_callback, acc_register_t);
void acc_callback_register(acc_event_t, acc_callback, acc_register_t) ACCORD_NOTHROW;   /* Accord */
void acc_callback_unregister(acc_event_t, acc_callback, acc_register_t) ACCORD_NOTHROW; /* Accord */
void acc_prof_register(acc_event_t, acc_callback, acc_register_t) ACCORD_NOTHROW;
void acc_prof_unregister(acc_event_t, acc_callback, acc_register_t) ACCORD_NOTHROW;

/* Inquiry functions: none are defined (5.3.1). */
typedef void (*acc_query_fn)(void);
typedef acc_query_fn (*acc_prof_lookup_func)(const char *);
acc_query_fn acc_prof_lookup(const char *) ACCORD_NOTHROW;

/* A tool's entry (5.3.1), which tools define. */
void acc_register_library(acc_prof_reg, acc_prof_reg, acc_prof_lookup_func);

#ifdef __cplusplus
}
#endif

#endif
#endif
