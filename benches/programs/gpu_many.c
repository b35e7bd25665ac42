/* Several GPUs: copies between two of them beside cuMemcpyPeer, and one picture over 1, 2, ... of them.
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_many.c -ldl */
#include "gpu_raw.h"
#include <openacc.h>
#include <string.h>

enum { ROUNDS = 9, SMALL_ROUNDS = 15, SMALL = 200 };

extern void acc_memcpy_d2d(void *dst_host, void *src_host, size_t bytes, int dst_device, int src_device)
    __attribute__((weak));

static void between(size_t bytes)
{
    double big[ROUNDS], small[SMALL_ROUNDS];
    raw_handle contexts[2], popped;
    raw_ptr memory[2];
    for (int i = 0; i < 2; i++) {
        int device;
        RAW(cuDeviceGet, &device, i);
        RAW(cuDevicePrimaryCtxRetain, &contexts[i], device);
    }
    for (int i = 0; i < 2; i++) {
        RAW(cuCtxPushCurrent_v2, contexts[i]);
        RAW(cuMemAlloc_v2, &memory[i], bytes);
        RAW(cuCtxEnablePeerAccess, contexts[1 - i], 0);
        RAW(cuCtxPopCurrent_v2, &popped);
    }
    RAW(cuCtxPushCurrent_v2, contexts[0]);
    for (int r = -2; r < ROUNDS; r++) {
        double t = now_us();
        RAW(cuMemcpyPeer, memory[1], contexts[1], memory[0], contexts[0], bytes);
        RAW(cuStreamSynchronize, NULL);
        if (r >= 0)
            big[r] = bytes / (now_us() - t) / 1e3;
    }
    for (int r = -2; r < SMALL_ROUNDS; r++) {
        double t = now_us();
        for (int i = 0; i < SMALL; i++) {
            RAW(cuMemcpyPeer, memory[1], contexts[1], memory[0], contexts[0], 8);
            RAW(cuStreamSynchronize, NULL);
        }
        if (r >= 0)
            small[r] = (now_us() - t) / SMALL;
    }
    report("raw peer", "1 GiB", "GB/s", big, ROUNDS);
    report("raw peer", "8 B", "us", small, SMALL_ROUNDS);
    for (int i = 0; i < 2; i++)
        RAW(cuMemFree_v2, memory[i]);
    RAW(cuCtxPopCurrent_v2, &popped);
    if (!acc_memcpy_d2d)
        return;

    char *a = malloc(bytes), *b = malloc(bytes);
    memset(a, 5, bytes);
    memset(b, 0, bytes);
    acc_set_device_num(0, acc_device_nvidia);
    acc_copyin(a, bytes);
    acc_set_device_num(1, acc_device_nvidia);
    acc_copyin(b, bytes);
    for (int r = -2; r < ROUNDS; r++) {
        double t = now_us();
        acc_memcpy_d2d(b, a, bytes, 1, 0);
        if (r >= 0)
            big[r] = bytes / (now_us() - t) / 1e3;
    }
    for (int r = -2; r < SMALL_ROUNDS; r++) {
        double t = now_us();
        for (int i = 0; i < SMALL; i++)
            acc_memcpy_d2d(b, a, 8, 1, 0);
        if (r >= 0)
            small[r] = (now_us() - t) / SMALL;
    }
    report("acc_memcpy_d2d", "1 GiB", "GB/s", big, ROUNDS);
    report("acc_memcpy_d2d", "8 B", "us", small, SMALL_ROUNDS);
    acc_copyout(b, bytes);
    if (b[0] != 5 || b[bytes / 2] != 5 || b[bytes - 1] != 5)
        printf("{\"bench\": \"acc_memcpy_d2d\", \"what\": \"WRONG\", \"value\": 0}\n");
    acc_set_device_num(0, acc_device_nvidia);
    acc_delete(a, bytes);
    free(a), free(b);
}

static void block(unsigned char *restrict part, int size, int from, int to, int iterations, int queue)
{
    size_t bytes = (size_t)(to - from) * size;
#pragma acc parallel loop collapse(2) gang vector present(part[0:bytes]) async(queue)
    for (int y = from; y < to; y++)
        for (int x = 0; x < size; x++) {
            double cr = -2 + 3.0 * x / size, ci = -1.5 + 3.0 * y / size, zr = 0, zi = 0;
            int n = 0;
            while (n < iterations && zr * zr + zi * zi < 4) {
                double t = zr * zr - zi * zi + cr;
                zi = 2 * zr * zi + ci;
                zr = t;
                n++;
            }
            part[(size_t)(y - from) * size + x] = n;
        }
}

static void over(int devices, int size, int blocks, int iterations)
{
    unsigned char *image = malloc((size_t)size * size);
    memset(image, 0, (size_t)size * size);
    double ms[ROUNDS];
    for (int i = 0; i < blocks; i++) {
        long from = (long)size * i / blocks, to = (long)size * (i + 1) / blocks;
        acc_set_device_num(i % devices, acc_device_nvidia);
        acc_create(image + from * size, (to - from) * size);
    }
    for (int r = -2; r < ROUNDS; r++) {
        double t = now_us();
        for (int i = 0; i < blocks; i++) {
            long from = (long)size * i / blocks, to = (long)size * (i + 1) / blocks;
            unsigned char *part = image + from * size;
            acc_set_device_num(i % devices, acc_device_nvidia);
            block(part, size, from, to, iterations, i / devices % 2);
            acc_update_self_async(part, (to - from) * size, i / devices % 2);
        }
        for (int d = 0; d < devices; d++) {
            acc_set_device_num(d, acc_device_nvidia);
            acc_wait_all();
        }
        if (r >= 0)
            ms[r] = (now_us() - t) / 1e3;
    }
    char name[40];
    snprintf(name, sizeof name, "over %d", devices);
    report("picture", name, "ms", ms, ROUNDS);
    unsigned long long sum = 0;
    for (size_t i = 0; i < (size_t)size * size; i++)
        sum = sum * 31 + image[i];
    printf("{\"bench\": \"picture\", \"what\": \"sum over %d\", \"value\": \"%llx\"}\n", devices, sum);
    fflush(stdout);
    for (int i = 0; i < blocks; i++) {
        acc_set_device_num(i % devices, acc_device_nvidia);
        acc_delete(image + (long)size * i / blocks * size, 1);
    }
    free(image);
}

int main(void)
{
    int count;
    raw_load();
    RAW(cuDeviceGetCount, &count);
    for (int devices = 1; devices <= count; devices *= 2)
        over(devices, 16384, 64, 2000);
    if (count > 1)
        between((size_t)1 << 30);
    return 0;
}
