/* Several host threads copy to one GPU at the same time, each an array of its own in a queue of its own: what they get together, beside
   the driver's copies from as many threads, of pageable and of pinned memory.
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_threads.c -ldl -pthread
   Argument: MiB of each. */
#include "gpu_raw.h"
#include <openacc.h>
#include <pthread.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 9 };
enum { RAW_COPY, UPDATE, UPDATE_ASYNC, COPYIN };

static size_t bytes;
static int kind;
static char *arrays[THREADS];
static raw_ptr memory[THREADS];
static raw_handle streams[THREADS], context;
static int (*in_async)(raw_ptr, const void *, size_t, raw_handle);
static pthread_barrier_t barrier;

static void copy(int n)
{
    char *a = arrays[n];
    switch (kind) {
    case RAW_COPY:
        in_async(memory[n], a, bytes, streams[n]);
        RAW(cuStreamSynchronize, streams[n]);
        break;
    case UPDATE: {
#pragma acc update device(a[0:bytes])
#pragma acc update self(a[0:1])
        break;
    }
    case UPDATE_ASYNC: {
#pragma acc update device(a[0:bytes]) async(n)
#pragma acc wait(n)
        break;
    }
    case COPYIN: {
#pragma acc enter data copyin(a[0:bytes]) async(n)
#pragma acc wait(n)
#pragma acc exit data delete(a[0:bytes])
        break;
    }
    }
}

static void *run(void *number)
{
    int n = (long)number;
    raw_handle popped;
    if (kind == RAW_COPY)
        RAW(cuCtxPushCurrent_v2, context);
    for (int r = -2; r < ROUNDS; r++) {
        pthread_barrier_wait(&barrier);
        copy(n);
        pthread_barrier_wait(&barrier);
    }
    if (kind == RAW_COPY)
        RAW(cuCtxPopCurrent_v2, &popped);
    return NULL;
}

static void measure(const char *bench, const char *what, int threads)
{
    pthread_t ids[THREADS];
    double rates[ROUNDS];
    pthread_barrier_init(&barrier, NULL, threads + 1);
    for (long n = 0; n < threads; n++)
        pthread_create(&ids[n], NULL, run, (void *)n);
    for (int r = -2; r < ROUNDS; r++) {
        pthread_barrier_wait(&barrier);
        double t = now_us();
        pthread_barrier_wait(&barrier);
        if (r >= 0)
            rates[r] = threads * bytes / (now_us() - t) / 1e3;
    }
    for (int n = 0; n < threads; n++)
        pthread_join(ids[n], NULL);
    pthread_barrier_destroy(&barrier);
    report(bench, what, "GB/s", rates, ROUNDS);
}

/* Arrays that were not copied yet: those that are copied often are page-locked. */
static void measure_new(int which, const char *what, int threads)
{
    kind = which;
    for (int n = 0; n < THREADS; n++) {
        arrays[n] = malloc(bytes);
        memset(arrays[n], n, bytes);
    }
    for (int n = 0; n < THREADS && kind != COPYIN; n++) {
        char *a = arrays[n];
#pragma acc enter data create(a[0:bytes])
    }
    measure("copies in", what, threads);
    for (int n = 0; n < THREADS; n++) {
        char *a = arrays[n];
        if (kind != COPYIN) {
#pragma acc exit data delete(a[0:bytes])
        }
        free(a);
    }
}

int main(int argc, char **argv)
{
    static char *pinned[THREADS], *pageable[THREADS];
    raw_handle popped;
    bytes = (argc > 1 ? strtoull(argv[1], NULL, 0) : 256) << 20;
    raw_load();
    if (!(context = raw_context(0)))
        return 77;
    *(void **)&in_async = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpyHtoDAsync_v2");
    for (int n = 0; n < THREADS; n++) {
        RAW(cuMemAlloc_v2, &memory[n], bytes);
        RAW(cuStreamCreate, &streams[n], 1);
        RAW(cuMemHostAlloc, (void **)&pinned[n], bytes, 0);
        pageable[n] = malloc(bytes);
        memset(pageable[n], n, bytes);
        memset(pinned[n], n, bytes);
    }
    RAW(cuCtxPopCurrent_v2, &popped);
    kind = RAW_COPY;
    memcpy(arrays, pageable, sizeof arrays);
    measure("copies in by hand", "pageable, 1 thread", 1);
    measure("copies in by hand", "pageable, 4 threads", THREADS);
    memcpy(arrays, pinned, sizeof arrays);
    measure("copies in by hand", "pinned, 1 thread", 1);
    measure("copies in by hand", "pinned, 4 threads", THREADS);
    RAW(cuCtxPushCurrent_v2, context);
    for (int n = 0; n < THREADS; n++) {
        RAW(cuMemFree_v2, memory[n]);
        free(pageable[n]);
    }
    RAW(cuCtxPopCurrent_v2, &popped);

    measure_new(UPDATE, "update device, 1 thread", 1);
    measure_new(UPDATE, "update device, 4 threads", THREADS);
    measure_new(UPDATE_ASYNC, "update device async, 4 threads", THREADS);
    measure_new(COPYIN, "enter data copyin async, 1 thread", 1);
    measure_new(COPYIN, "enter data copyin async, 4 threads", THREADS);
    memcpy(arrays, pinned, sizeof arrays);
    kind = UPDATE_ASYNC;
    for (int n = 0; n < THREADS; n++) {
        char *a = arrays[n];
#pragma acc enter data create(a[0:bytes])
    }
    measure("copies in", "update device async, pinned, 4 threads", THREADS);
    for (int n = 0; n < THREADS; n++) {
        char *a = arrays[n];
        memset(a, n + 1, bytes);
#pragma acc update device(a[0:bytes])
        memset(a, 0, bytes);
#pragma acc exit data copyout(a[0:bytes])
        if (memchr(a, 0, bytes))
            report_value("copies in", "right", "", 0);
    }
    return 0;
}
