/* Blocks of an image computed and copied out: one block after the other, and over two queues; beside the least that the
   order of two queues allows.
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_pipeline.c -ldl
   Arguments: size of the image, blocks, most iterations. */
#include "gpu_mandelbrot.h"
#include "gpu_raw.h"
#include <openacc.h>
#include <string.h>

enum { ROUNDS = 9, EVENTS_QUEUE = 7, BLOCKS_MAX = 256 };

/* Stock libgomp lacks it. */
extern void acc_memcpy_d2d(void *dst_host, void *src_host, size_t bytes, int dst_device, int src_device)
    __attribute__((weak));

static void block(unsigned char *restrict image, int size, int from, int to, int iterations, int queue)
{
#pragma acc parallel loop collapse(2) gang vector present(image[0:(size_t)size * size]) async(queue)
    for (int y = from; y < to; y++)
        for (int x = 0; x < size; x++) {
            MANDELBROT(image[(size_t)y * size + x], x, y, size, iterations);
        }
}

static double run(unsigned char *image, int size, int blocks, int queues, int iterations, int compute, int copy)
{
    double t0 = now_us();
    for (int i = 0; i < blocks; i++) {
        int from = (long)size * i / blocks, to = (long)size * (i + 1) / blocks, queue = i % queues;
        if (compute)
            block(image, size, from, to, iterations, queue);
        if (copy) {
#pragma acc update self(image[(size_t)from * size:(size_t)(to - from) * size]) async(queue)
        }
    }
#pragma acc wait
    return now_us() - t0;
}

/* Milliseconds that the driver's events show for what is put into a stream. */
#define TIMED(ms, stream, work)                                  \
    do {                                                         \
        float took_;                                             \
        RAW(cuEventRecord, events[0], stream);                   \
        work;                                                    \
        RAW(cuEventRecord, events[1], stream);                   \
        RAW(cuEventSynchronize, events[1]);                      \
        RAW(cuEventElapsedTime, &took_, events[0], events[1]);   \
        (ms) = took_;                                            \
    } while (0)

/* The least that blocks over two queues can take if the device computes one and copies one at a time. Blocks at the
   picture's edges are computed faster than copied and those in its middle slower, and a queue's next kernel waits for its
   copy: so that is more than the longer sum and a block. `together`: the kernels over two queues without copies, in which
   one begins while another ends. */
static double schedule(unsigned char *image, unsigned char *pinned, int size, int blocks, int iterations, double together)
{
    static double kernels[BLOCKS_MAX][ROUNDS], copies[ROUNDS];
    double sum = 0, computed = 0, copied[2] = { 0, 0 }, last = 0;
    size_t bytes = (size_t)size * size / blocks;
    raw_handle events[2], stream;
    raw_ptr memory;
    block(image, size, 0, size / blocks, iterations, EVENTS_QUEUE);
    if (blocks > BLOCKS_MAX || !(stream = acc_get_cuda_stream(EVENTS_QUEUE)))
        return 0;
    for (int i = 0; i < 2; i++)
        RAW(cuEventCreate, &events[i], 0);
    RAW(cuMemAlloc_v2, &memory, bytes);
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < blocks; i++)
            TIMED(kernels[i][r], stream,
                  block(image, size, (long)size * i / blocks, (long)size * (i + 1) / blocks, iterations, EVENTS_QUEUE));
        TIMED(copies[r], stream, for (int i = 0; i < blocks; i++)
                  RAW(cuMemcpyDtoHAsync_v2, pinned, memory, bytes, stream));
    }
    for (int i = 0; i < blocks; i++) {
        qsort(kernels[i], ROUNDS, sizeof(double), by_value);
        sum += kernels[i][ROUNDS / 2];
    }
    report_value("pipeline", "kernels of the blocks, by events", "ms", sum);
    report("pipeline", "copies of the blocks, by events", "ms", copies, ROUNDS);
    double share = together < sum ? together / sum : 1, copy = copies[ROUNDS / 2] / blocks;
    for (int i = 0; i < blocks; i++) {
        /* A kernel begins when the one before is done, and the copy before it in its queue. */
        computed = (computed > copied[i % 2] ? computed : copied[i % 2]) + kernels[i][ROUNDS / 2] * share;
        last = (last > computed ? last : computed) + copy;
        copied[i % 2] = last;
    }
    RAW(cuMemFree_v2, memory);
    return last;
}

int main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 8192, blocks = argc > 2 ? atoi(argv[2]) : 16;
    int iterations = argc > 3 ? atoi(argv[3]) : 255;
    size_t bytes = (size_t)size * size;
    unsigned char *image = malloc(bytes);
    memset(image, 0, bytes);
    double start = now_us();
#pragma acc enter data create(image[0:bytes])
    double created = now_us() - start;
    struct {
        const char *name;
        int blocks, queues, compute, copy;
    } ways[] = { { "compute only", 1, 1, 1, 0 },        { "copy only", 1, 1, 0, 1 },
                 { "1 block", 1, 1, 1, 1 },             { "blocks, 1 queue", blocks, 1, 1, 1 },
                 { "blocks, 2 queues", blocks, 2, 1, 1 }, { "blocks, compute only", blocks, 2, 1, 0 } };
    report("pipeline", "start and allocation", "us", &created, 1);
    double together = 0;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        double ms[ROUNDS];
        for (int r = -2; r < ROUNDS; r++) {
            double us = run(image, size, ways[w].blocks, ways[w].queues, iterations, ways[w].compute, ways[w].copy);
            if (r >= 0)
                ms[r] = us / 1e3;
        }
        report("pipeline", ways[w].name, "ms", ms, ROUNDS);
        together = ms[ROUNDS / 2];
    }
    /* The same with memory that the device's engines reach: what the driver itself needs. */
    raw_load();
    raw_handle context, popped;
    int device;
    unsigned char *pinned;
    RAW(cuDeviceGet, &device, 0);
    RAW(cuDevicePrimaryCtxRetain, &context, device);
    RAW(cuCtxPushCurrent_v2, context);
    RAW(cuMemHostAlloc, (void **)&pinned, bytes, 0);
    RAW(cuCtxPopCurrent_v2, &popped);
    memset(pinned, 0, bytes);
#pragma acc enter data create(pinned[0:bytes])
    double ms[ROUNDS];
    for (int r = -2; r < ROUNDS; r++) {
        double us = run(pinned, size, blocks, 2, iterations, 1, 1);
        if (r >= 0)
            ms[r] = us / 1e3;
    }
    report("pipeline", "blocks, 2 queues, pinned memory", "ms", ms, ROUNDS);
    /* Stock libgomp's context is not the one that the driver calls here make current. */
    if (acc_memcpy_d2d) {
        RAW(cuCtxPushCurrent_v2, context);
        double least = schedule(image, pinned, size, blocks, iterations, together);
        if (least)
            report_value("pipeline", "least for 2 queues", "ms", least);
        RAW(cuCtxPopCurrent_v2, &popped);
    }
#pragma acc exit data delete(pinned[0:bytes])
    unsigned long long sum = 0;
    for (size_t i = 0; i < bytes; i++)
        sum = sum * 31 + image[i];
    printf("{\"bench\": \"pipeline\", \"what\": \"sum\", \"value\": \"%llx\"}\n", sum);
    return 0;
}
