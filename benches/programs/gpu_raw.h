/* The CUDA driver by hand, for numbers to stand next to: looked up at run time, so that this
   builds where there is no CUDA. Only what the benches need. */
#ifndef GPU_RAW_H
#define GPU_RAW_H
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef void *raw_handle;
typedef unsigned long long raw_ptr;

static struct {
    int (*cuInit)(unsigned);
    int (*cuDeviceGet)(int *, int);
    int (*cuDeviceGetCount)(int *);
    int (*cuDevicePrimaryCtxRetain)(raw_handle *, int);
    int (*cuCtxPushCurrent_v2)(raw_handle);
    int (*cuCtxPopCurrent_v2)(raw_handle *);
    int (*cuCtxEnablePeerAccess)(raw_handle, unsigned);
    int (*cuModuleLoadData)(raw_handle *, const void *);
    int (*cuModuleGetFunction)(raw_handle *, raw_handle, const char *);
    int (*cuLaunchKernel)(raw_handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, raw_handle,
                          void **, void **);
    int (*cuStreamCreate)(raw_handle *, unsigned);
    int (*cuStreamSynchronize)(raw_handle);
    int (*cuMemAlloc_v2)(raw_ptr *, size_t);
    int (*cuMemFree_v2)(raw_ptr);
    int (*cuMemHostAlloc)(void **, size_t, unsigned);
    int (*cuMemFreeHost)(void *);
    int (*cuMemcpyHtoD_v2)(raw_ptr, const void *, size_t);
    int (*cuMemcpyDtoH_v2)(void *, raw_ptr, size_t);
    int (*cuMemcpyDtoHAsync_v2)(void *, raw_ptr, size_t, raw_handle);
    int (*cuMemcpyPeer)(raw_ptr, raw_handle, raw_ptr, raw_handle, size_t);
    int (*cuMemcpyPeerAsync)(raw_ptr, raw_handle, raw_ptr, raw_handle, size_t, raw_handle);
    int (*cuEventCreate)(raw_handle *, unsigned);
    int (*cuEventRecord)(raw_handle, raw_handle);
    int (*cuEventSynchronize)(raw_handle);
    int (*cuEventElapsedTime)(float *, raw_handle, raw_handle);
} raw;

/* The driver's code; -1 if it has no such function. */
#define RAW_CODE(call, ...) (raw.call ? raw.call(__VA_ARGS__) : -1)

#define RAW(call, ...)                                                              \
    do {                                                                            \
        int raw_code = RAW_CODE(call, __VA_ARGS__);                                 \
        if (raw_code) {                                                             \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, raw_code); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

/* Whether there is a driver. */
static int raw_try_load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        return 0;
#define RAW_SYMBOL(name) *(void **)&raw.name = dlsym(library, #name)
    RAW_SYMBOL(cuInit);
    RAW_SYMBOL(cuDeviceGet);
    RAW_SYMBOL(cuDeviceGetCount);
    RAW_SYMBOL(cuDevicePrimaryCtxRetain);
    RAW_SYMBOL(cuCtxPushCurrent_v2);
    RAW_SYMBOL(cuCtxPopCurrent_v2);
    RAW_SYMBOL(cuCtxEnablePeerAccess);
    RAW_SYMBOL(cuModuleLoadData);
    RAW_SYMBOL(cuModuleGetFunction);
    RAW_SYMBOL(cuLaunchKernel);
    RAW_SYMBOL(cuStreamCreate);
    RAW_SYMBOL(cuStreamSynchronize);
    RAW_SYMBOL(cuMemAlloc_v2);
    RAW_SYMBOL(cuMemFree_v2);
    RAW_SYMBOL(cuMemHostAlloc);
    RAW_SYMBOL(cuMemFreeHost);
    RAW_SYMBOL(cuMemcpyHtoD_v2);
    RAW_SYMBOL(cuMemcpyDtoH_v2);
    RAW_SYMBOL(cuMemcpyDtoHAsync_v2);
    RAW_SYMBOL(cuMemcpyPeer);
    RAW_SYMBOL(cuMemcpyPeerAsync);
    RAW_SYMBOL(cuEventCreate);
    RAW_SYMBOL(cuEventRecord);
    RAW_SYMBOL(cuEventSynchronize);
    RAW_SYMBOL(cuEventElapsedTime);
    return raw.cuInit && !raw.cuInit(0);
}

static inline void raw_load(void)
{
    if (!raw_try_load()) {
        fprintf(stderr, "skipped: there is no NVIDIA driver\n");
        exit(77);
    }
}

/* A device's context, made current; 0 if the driver does not show so many devices. */
static inline raw_handle raw_context(int number)
{
    raw_handle context;
    int device, count;
    RAW(cuDeviceGetCount, &count);
    if (number >= count)
        return 0;
    RAW(cuDeviceGet, &device, number);
    RAW(cuDevicePrimaryCtxRetain, &context, device);
    RAW(cuCtxPushCurrent_v2, context);
    return context;
}

static const char raw_ptx[] = ".version 6.0\n.target sm_30\n.address_size 64\n"
                              ".visible .entry empty (.param .u64 p)\n{\nret;\n}\n";

static inline double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Prints one figure as a JSON line. */
static inline void report_value(const char *bench, const char *what, const char *unit, double value)
{
    printf("{\"bench\": \"%s\", \"what\": \"%s\", \"unit\": \"%s\", \"value\": %.4g}\n", bench, what, unit, value);
    fflush(stdout);
}

/* Prints one result as a JSON line: the median, the fastest and the slowest of n. */
static inline void report(const char *bench, const char *what, const char *unit, double *values, int n)
{
    qsort(values, n, sizeof *values, by_value);
    printf("{\"bench\": \"%s\", \"what\": \"%s\", \"unit\": \"%s\", \"median\": %.4g, \"min\": %.4g, \"max\": %.4g, \"n\": %d}\n",
           bench, what, unit, values[n / 2], values[0], values[n - 1], n);
    fflush(stdout);
}
#endif
