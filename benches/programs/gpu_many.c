/* Several GPUs, of this machine or of a cluster: one picture over 1, 2, ... of them, and on one machine copies between
   two of them beside cuMemcpyPeer.
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_many.c -ldl
   Arguments: size of the picture, most iterations. */
#include "gpu_raw.h"
#include <openacc.h>
#include <string.h>

/* Blocks differ in work: with 64 of them the dealing alone would limit 4 GPUs to 3.885 times the speed of one. */
enum { ROUNDS = 9, SMALL_ROUNDS = 15, SMALL = 200, BLOCKS = 128 };

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

enum { DEVICES_MAX = 16 };

/* A picture whose blocks are dealt out to a number of devices. */
struct picture {
    unsigned char *image;
    int devices, size, blocks, iterations;
    double ms[ROUNDS];
};

static unsigned char *part(struct picture *picture, int i, size_t *bytes, int *from, int *to)
{
    *from = (long)picture->size * i / picture->blocks, *to = (long)picture->size * (i + 1) / picture->blocks;
    *bytes = (size_t)(*to - *from) * picture->size;
    acc_set_device_num(i % picture->devices, acc_device_nvidia);
    return picture->image + (size_t)*from * picture->size;
}

static void prepare(struct picture *picture, int devices, int size, int blocks, int iterations)
{
    size_t bytes;
    int from, to;
    *picture = (struct picture){ .devices = devices, .size = size, .blocks = blocks, .iterations = iterations };
    picture->image = malloc((size_t)size * size);
    memset(picture->image, 0, (size_t)size * size);
    for (int i = 0; i < blocks; i++) {
        unsigned char *at = part(picture, i, &bytes, &from, &to);
        acc_create(at, bytes);
    }
}

/* Draws it; in milliseconds. */
static double draw(struct picture *picture)
{
    size_t bytes;
    int from, to;
    double start = now_us();
    for (int i = 0; i < picture->blocks; i++) {
        unsigned char *at = part(picture, i, &bytes, &from, &to);
        int queue = i / picture->devices % 2;
        block(at, picture->size, from, to, picture->iterations, queue);
        acc_update_self_async(at, bytes, queue);
    }
    for (int d = 0; d < picture->devices; d++) {
        acc_set_device_num(d, acc_device_nvidia);
        acc_wait_all();
    }
    return (now_us() - start) / 1e3;
}

static void conclude(struct picture *picture)
{
    char name[40];
    size_t bytes;
    int from, to;
    unsigned long long sum = 0;
    snprintf(name, sizeof name, "over %d", picture->devices);
    report("picture", name, "ms", picture->ms, ROUNDS);
    for (size_t i = 0; i < (size_t)picture->size * picture->size; i++)
        sum = sum * 31 + picture->image[i];
    printf("{\"bench\": \"picture\", \"what\": \"sum over %d\", \"value\": \"%llx\"}\n", picture->devices, sum);
    fflush(stdout);
    for (int i = 0; i < picture->blocks; i++) {
        unsigned char *at = part(picture, i, &bytes, &from, &to);
        acc_delete(at, bytes);
    }
    free(picture->image);
}

int main(int argc, char **argv)
{
    static struct picture pictures[DEVICES_MAX];
    int size = argc > 1 ? atoi(argv[1]) : 16384, iterations = argc > 2 ? atoi(argv[2]) : 2000, kinds = 0;
    int count = acc_get_num_devices(acc_device_nvidia);
    for (int devices = 1; devices <= count && devices <= DEVICES_MAX; devices *= 2)
        prepare(&pictures[kinds++], devices, size, BLOCKS, iterations);
    for (int r = -2; r < ROUNDS; r++)
        for (int k = 0; k < kinds; k++) {
            double ms = draw(&pictures[k]);
            if (r >= 0)
                pictures[k].ms[r] = ms;
        }
    for (int k = 0; k < kinds; k++)
        conclude(&pictures[k]);
    /* Over a cluster the driver shows this process its own host's GPUs only. */
    if (count > 1 && !getenv("ACCORD_COORDINATOR")) {
        raw_load();
        between((size_t)1 << 30);
    }
    return 0;
}
