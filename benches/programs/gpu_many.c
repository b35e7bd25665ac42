/* Several GPUs, of this machine or of a cluster: pictures over 1, 2, ... of them, and on one machine copies between
   two of them beside cuMemcpyPeer. A picture is drawn in blocks that are dealt out in turn, in two ways: blocks of
   neighbouring rows, as textbooks have it, whose work differs; and blocks of scattered rows, which have the same.
   What the first can gain is bounded by its kernels (without copies) and by its largest share (drawn alone).
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_many.c -ldl
   Arguments: size of the picture, most iterations. */
#include "gpu_mandelbrot.h"
#include "gpu_raw.h"
#include <openacc.h>
#include <string.h>

/* All copies of a block are fewer than the 16 after which its memory would be page-locked. */
enum { ROUNDS = 9, SHARE_ROUNDS = 4, SMALL_ROUNDS = 15, SMALL = 200, BLOCKS = 128, STRIDE = 10127 };

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

/* Row r of the block shows row r * stride of the picture. */
static void block(unsigned char *restrict part, int size, int from, int to, int stride, int iterations, int queue)
{
    size_t bytes = (size_t)(to - from) * size;
#pragma acc parallel loop collapse(2) gang vector present(part[0:bytes]) async(queue)
    for (int row = from; row < to; row++)
        for (int x = 0; x < size; x++) {
            int y = (long)row * stride % size;
            MANDELBROT(part[(size_t)(row - from) * size + x], x, y, size, iterations);
        }
}

enum { DEVICES_MAX = 16, ALL = -1, COMPUTE = 1, COPY = 2 };

/* A picture whose blocks are dealt out to a number of devices. */
struct picture {
    unsigned char *image;
    int devices, size, stride, iterations;
    double ms[ROUNDS], enqueued[ROUNDS], computed[ROUNDS], share[SHARE_ROUNDS];
};

static unsigned char *part(struct picture *picture, int i, size_t *bytes, int *from, int *to)
{
    *from = (long)picture->size * i / BLOCKS, *to = (long)picture->size * (i + 1) / BLOCKS;
    *bytes = (size_t)(*to - *from) * picture->size;
    acc_set_device_num(i % picture->devices, acc_device_nvidia);
    return picture->image + (size_t)*from * picture->size;
}

static void prepare(struct picture *picture, int devices, int size, int stride, int iterations)
{
    size_t bytes;
    int from, to;
    *picture = (struct picture){ .devices = devices, .size = size, .stride = stride, .iterations = iterations };
    picture->image = malloc((size_t)size * size);
    memset(picture->image, 0, (size_t)size * size);
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char *at = part(picture, i, &bytes, &from, &to);
        acc_create(at, bytes);
    }
}

/* Draws all of it, or one device's share; in milliseconds. `enqueued`: how long that takes the host. */
static double draw(struct picture *picture, int share, int does, double *enqueued)
{
    size_t bytes;
    int from, to;
    double start = now_us();
    for (int i = 0; i < BLOCKS; i++) {
        if (share != ALL && share != i % picture->devices)
            continue;
        unsigned char *at = part(picture, i, &bytes, &from, &to);
        int queue = i / picture->devices % 2;
        block(at, picture->size, from, to, picture->stride, picture->iterations, queue);
        if (does & COPY)
            acc_update_self_async(at, bytes, queue);
    }
    *enqueued = (now_us() - start) / 1e3;
    for (int d = 0; d < picture->devices; d++) {
        acc_set_device_num(d, acc_device_nvidia);
        acc_wait_all();
    }
    return (now_us() - start) / 1e3;
}

static void measure(struct picture *picture, int round)
{
    double ignored, ms, enqueued = 0, computed = 0, slowest = 0;
    ms = draw(picture, ALL, COMPUTE | COPY, &enqueued);
    if (picture->stride == 1) {
        computed = draw(picture, ALL, COMPUTE, &ignored);
        for (int d = 0; d < picture->devices && round >= 0 && round < SHARE_ROUNDS; d++) {
            double share = draw(picture, d, COMPUTE | COPY, &ignored);
            slowest = share > slowest ? share : slowest;
        }
    }
    if (round < 0)
        return;
    picture->ms[round] = ms, picture->enqueued[round] = enqueued;
    picture->computed[round] = computed;
    if (round < SHARE_ROUNDS)
        picture->share[round] = slowest;
}

static void conclude(struct picture *picture)
{
    const char *bench = picture->stride == 1 ? "picture" : "picture, scattered rows";
    char name[80];
    size_t bytes;
    int from, to;
    unsigned long long sum = 0;
    snprintf(name, sizeof name, "over %d", picture->devices);
    report(bench, name, "ms", picture->ms, ROUNDS);
    snprintf(name, sizeof name, "over %d, until all is in queues", picture->devices);
    report(bench, name, "ms", picture->enqueued, ROUNDS);
    if (picture->stride == 1) {
        snprintf(name, sizeof name, "over %d, without copies", picture->devices);
        report(bench, name, "ms", picture->computed, ROUNDS);
        snprintf(name, sizeof name, "over %d, slowest share alone", picture->devices);
        report(bench, name, "ms", picture->share, SHARE_ROUNDS);
    }
    /* The same for all pictures, whatever their rows' order. */
    for (int row = 0; row < picture->size; row++) {
        unsigned long long of_row = 0;
        for (int x = 0; x < picture->size; x++)
            of_row = of_row * 31 + picture->image[(size_t)row * picture->size + x];
        sum += of_row;
    }
    printf("{\"bench\": \"%s\", \"what\": \"sum over %d\", \"value\": \"%llx\"}\n", bench, picture->devices, sum);
    fflush(stdout);
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char *at = part(picture, i, &bytes, &from, &to);
        acc_delete(at, bytes);
    }
    free(picture->image);
}

/* Pictures of a kind over 1, 2, ... devices, in turn. */
static void pictures(int count, int size, int stride, int iterations)
{
    static struct picture all[DEVICES_MAX];
    int kinds = 0;
    for (int devices = 1; devices <= count && devices <= DEVICES_MAX; devices *= 2)
        prepare(&all[kinds++], devices, size, stride, iterations);
    for (int r = -2; r < ROUNDS; r++)
        for (int k = 0; k < kinds; k++)
            measure(&all[k], r);
    for (int k = 0; k < kinds; k++)
        conclude(&all[k]);
}

int main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 16384, iterations = argc > 2 ? atoi(argv[2]) : 2000;
    int count = acc_get_num_devices(acc_device_nvidia);
    pictures(count, size, 1, iterations);
    pictures(count, size, STRIDE, iterations);
    /* Over a cluster the driver shows this process its own host's GPUs only. */
    if (count > 1 && !getenv("ACCORD_COORDINATOR")) {
        raw_load();
        between((size_t)1 << 30);
    }
    return 0;
}
