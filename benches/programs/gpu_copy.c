/* What copies cost: OpenACC's update of pageable memory beside raw copies, pageable and pinned.
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_copy.c -ldl */
#include "gpu_raw.h"
#include <openacc.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 7, SMALL_ROUNDS = 15, SMALL = 500 };

/* Both ways, waited for and not. A synchronous copy to the device returns when all has been read; the last of it gets there
   later, but before 8 B that come back behind it. */
static void updates(char *host, size_t bytes, int async, const char *bench)
{
    double in[ROUNDS], out[ROUNDS], there[ROUNDS];
    for (int r = -1; r < ROUNDS && !async; r++) {
        double t0 = now_us();
#pragma acc update device(host[0:bytes])
        double t1 = now_us();
#pragma acc update self(host[0:8])
        double t2 = now_us();
#pragma acc update self(host[0:bytes])
        double t3 = now_us();
        if (r >= 0)
            in[r] = bytes / (t1 - t0) / 1e3, there[r] = bytes / (t2 - t0) / 1e3, out[r] = bytes / (t3 - t2) / 1e3;
    }
    if (!async) {
        report(bench, "host to device, until the call returns", "GB/s", in, ROUNDS);
        report(bench, "host to device", "GB/s", there, ROUNDS);
        report(bench, "device to host", "GB/s", out, ROUNDS);
    }
    for (int r = -1; r < ROUNDS && async; r++) {
        double t0 = now_us();
#pragma acc update device(host[0:bytes]) async(1)
        double t1 = now_us();
#pragma acc wait(1)
        double t2 = now_us();
        if (r >= 0)
            in[r] = t1 - t0, out[r] = bytes / (t2 - t0) / 1e3;
    }
    if (async) {
        report(bench, "host to device, until the call returns", "us", in, ROUNDS);
        report(bench, "host to device", "GB/s", out, ROUNDS);
    }
}

int main(int argc, char **argv)
{
    size_t bytes = (argc > 1 ? strtoull(argv[1], NULL, 0) : 1024) << 20;
    double in[SMALL_ROUNDS], out[SMALL_ROUNDS];
    char *host = malloc(bytes);
    void *pinned;
    raw_ptr memory;
    raw_handle context, popped;
    int device;
    memset(host, 1, bytes);
    raw_load();
    RAW(cuDeviceGet, &device, 0);
    RAW(cuDevicePrimaryCtxRetain, &context, device);
    RAW(cuCtxPushCurrent_v2, context);
    RAW(cuMemAlloc_v2, &memory, bytes);
    RAW(cuMemHostAlloc, &pinned, bytes, 0);
    memset(pinned, 2, bytes);
    for (int kind = 0; kind < 2; kind++) {
        void *at = kind ? pinned : host;
        for (int r = -1; r < ROUNDS; r++) {
            double t0 = now_us();
            RAW(cuMemcpyHtoD_v2, memory, at, bytes);
            double t1 = now_us();
            RAW(cuMemcpyDtoH_v2, at, memory, bytes);
            double t2 = now_us();
            if (r >= 0)
                in[r] = bytes / (t1 - t0) / 1e3, out[r] = bytes / (t2 - t1) / 1e3;
        }
        report(kind ? "raw pinned" : "raw pageable", "host to device", "GB/s", in, ROUNDS);
        report(kind ? "raw pinned" : "raw pageable", "device to host", "GB/s", out, ROUNDS);
    }
    RAW(cuMemFreeHost, pinned);
    for (int r = -2; r < SMALL_ROUNDS; r++) {
        double t0 = now_us();
        for (int i = 0; i < SMALL; i++)
            RAW(cuMemcpyHtoD_v2, memory, host, 8);
        double t1 = now_us();
        for (int i = 0; i < SMALL; i++)
            RAW(cuMemcpyDtoH_v2, host, memory, 8);
        double t2 = now_us();
        if (r >= 0)
            in[r] = (t1 - t0) / SMALL, out[r] = (t2 - t1) / SMALL;
    }
    report("raw pageable", "8 B to device", "us", in, SMALL_ROUNDS);
    report("raw pageable", "8 B to host", "us", out, SMALL_ROUNDS);
    RAW(cuMemFree_v2, memory);
    RAW(cuCtxPopCurrent_v2, &popped);

    /* Arrays that are copied often are page-locked: after the last round of the first, not within those of the second. */
    char *other = malloc(bytes);
    memset(other, 1, bytes);
#pragma acc enter data create(host[0:bytes], other[0:bytes])
    updates(host, bytes, 0, "update");
    updates(other, bytes, 1, "update async");
#pragma acc exit data delete(other[0:bytes])
    free(other);
    sleep(1);
    updates(host, bytes, 0, "update of an array copied often");
    updates(host, bytes, 1, "update async of an array copied often");
    for (int r = -2; r < SMALL_ROUNDS; r++) {
        double t0 = now_us();
        for (int i = 0; i < SMALL; i++) {
#pragma acc update device(host[0:8])
        }
        double t1 = now_us();
        for (int i = 0; i < SMALL; i++) {
#pragma acc update self(host[0:8])
        }
        double t2 = now_us();
        if (r >= 0)
            in[r] = (t1 - t0) / SMALL, out[r] = (t2 - t1) / SMALL;
    }
    report("update", "8 B to device", "us", in, SMALL_ROUNDS);
    report("update", "8 B to host", "us", out, SMALL_ROUNDS);
    for (size_t i = 0; i < bytes; i += 4096)
        if (host[i] != 1) {
            printf("{\"bench\": \"update\", \"what\": \"WRONG at %zu\"}\n", i);
            return 1;
        }
#pragma acc exit data delete(host[0:bytes])
    return 0;
}
