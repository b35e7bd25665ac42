/* Does computing hide copying? A Mandelbrot picture whose kernel takes as long as its copy to the host: the iteration
   limit is chosen so, in the run. Computed and copied as a whole, and in blocks of rows over queues. Rows are stored in an
   order that gives blocks the same work: else those of the picture's middle take twice as long as their copies and those
   of its edges a third, which two queues can't even out (at most 1.5 times the speed).
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_overlap.c -ldl
   Argument: size of the picture. */
#include "gpu_mandelbrot.h"
#include "gpu_raw.h"
#include <openacc.h>
#include <string.h>

enum { ROUNDS = 11, BLOCKS = 16, EVENTS_QUEUE = 7, STRIDE = 10127, COLUMNS = 512 };

/* Stock libgomp lacks it; its context is not the one that the driver calls here make current. */
extern void acc_memcpy_d2d(void *dst_host, void *src_host, size_t bytes, int dst_device, int src_device)
    __attribute__((weak));

static int size, iterations = 64;

/* Each gang has a part of a row: many more than run at a time, so that the hardware evens out what differs between them. */
static void rows(unsigned char *restrict image, int from, int to, int queue)
{
    int parts = (size + COLUMNS - 1) / COLUMNS;
#pragma acc parallel loop gang collapse(2) num_gangs((to - from) * parts) vector_length(128)                             \
    present(image[0:(size_t)size * size]) async(queue)
    for (int row = from; row < to; row++)
        for (int part = 0; part < parts; part++) {
            int y = (long)row * STRIDE % size, end = (part + 1) * COLUMNS < size ? (part + 1) * COLUMNS : size;
#pragma acc loop vector
            for (int x = part * COLUMNS; x < end; x++) {
                MANDELBROT(image[(size_t)row * size + x], x, y, size, iterations);
            }
        }
}

static int start_of(int block, int of)
{
    return (long)size * block / of;
}

enum { COMPUTE = 1, COPY = 2 };

/* Computes or copies all blocks, or both; in milliseconds. */
static double run(unsigned char *image, int blocks, int queues, int does)
{
    double start = now_us();
    for (int i = 0; i < blocks; i++) {
        int from = start_of(i, blocks), to = start_of(i + 1, blocks), queue = i % queues;
        if (does & COMPUTE)
            rows(image, from, to, queue);
        if (does & COPY) {
#pragma acc update self(image[(size_t)from * size:(size_t)(to - from) * size]) async(queue)
        }
    }
#pragma acc wait
    return (now_us() - start) / 1e3;
}

static double median(double *values, int n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

/* Chooses the iteration limit: a kernel's time is a constant and a part that grows with the limit. */
static void choose_iterations(unsigned char *image)
{
    enum { TIMES = 9 };
    double computes[TIMES], copies[TIMES];
    /* The first copies of an array are slower than those that follow. */
    for (int i = 0; i < 20; i++)
        run(image, 1, 1, COMPUTE | COPY);
    for (int tries = 0; tries < 15; tries++) {
        for (int i = 0; i < TIMES; i++) {
            computes[i] = run(image, 1, 1, COMPUTE);
            copies[i] = run(image, 1, 1, COPY);
        }
        double ratio = median(copies, TIMES) / median(computes, TIMES), next = iterations * ratio;
        int limit = next < 1 ? 1 : next > 20000 ? 20000 : (int)(next + 0.5);
        if (limit == iterations || (ratio > 0.98 && ratio < 1.02))
            return;
        iterations = limit;
    }
}

/* How long the blocks' kernels take, one after the other, by events of the driver, and with that the least that two
   queues need: one kernel at a time, one copy at a time, and no copy before the first kernel or kernel after the last. */
static void ideal(unsigned char *image, double copy_ms)
{
    raw_handle events[2], stream;
    double sums[ROUNDS];
    float ms;
    rows(image, 0, start_of(1, BLOCKS), EVENTS_QUEUE);
    acc_wait(EVENTS_QUEUE);
    if (!(stream = acc_get_cuda_stream(EVENTS_QUEUE)))
        return;
    for (int i = 0; i < 2; i++)
        RAW(cuEventCreate, &events[i], 0);
    for (int r = 0; r < ROUNDS; r++) {
        RAW(cuEventRecord, events[0], stream);
        for (int i = 0; i < BLOCKS; i++)
            rows(image, start_of(i, BLOCKS), start_of(i + 1, BLOCKS), EVENTS_QUEUE);
        RAW(cuEventRecord, events[1], stream);
        RAW(cuEventSynchronize, events[1]);
        RAW(cuEventElapsedTime, &ms, events[0], events[1]);
        sums[r] = ms;
    }
    double sum = median(sums, ROUNDS), longer = sum > copy_ms ? sum : copy_ms, other = sum > copy_ms ? copy_ms : sum;
    report("overlap", "kernels of 16 blocks, by events", "ms", sums, ROUNDS);
    report_value("overlap", "ideal: the longer of kernels and copy, and a block of the other", "ms", longer + other / BLOCKS);
}

/* Whether blocks over queues draw the same picture as one kernel. */
static int same(unsigned char *image, unsigned char *expected, int blocks, int queues)
{
    size_t bytes = (size_t)size * size;
    memset(image, 0, bytes);
#pragma acc update device(image[0:bytes])
    run(image, blocks, queues, COMPUTE | COPY);
    return !memcmp(image, expected, bytes);
}

int main(int argc, char **argv)
{
    size = argc > 1 ? atoi(argv[1]) : 16384;
    if (size < 2 * BLOCKS)
        return fprintf(stderr, "at least %d rows\n", 2 * BLOCKS), 2;
    size_t bytes = (size_t)size * size;
    unsigned char *image = malloc(bytes), *pinned = NULL, *expected = malloc(bytes);
    raw_handle context = NULL, popped;
    memset(image, 0, bytes);
#pragma acc enter data create(image[0:bytes])
    choose_iterations(image);
    report_value("overlap", "iterations", "", iterations);
    /* Memory that the device's engines reach: what the driver itself needs. */
    if (raw_try_load() && (context = raw_context(0))) {
        RAW(cuMemHostAlloc, (void **)&pinned, bytes, 0);
        RAW(cuCtxPopCurrent_v2, &popped);
        memset(pinned, 0, bytes);
#pragma acc enter data create(pinned[0:bytes])
    }

    enum { COMPUTED, COPIED, WHOLE, PIPELINED, PINNED = PIPELINED + 3, KINDS };
    struct {
        const char *name;
        unsigned char *image;
        int blocks, queues, does;
    } kinds[KINDS] = { { "compute only", image, 1, 1, COMPUTE },
                       { "copy only", image, 1, 1, COPY },
                       { "as a whole", image, 1, 1, COMPUTE | COPY },
                       { "16 blocks, 2 queues", image, BLOCKS, 2, COMPUTE | COPY },
                       { "32 blocks, 2 queues", image, 2 * BLOCKS, 2, COMPUTE | COPY },
                       { "32 blocks, 3 queues", image, 2 * BLOCKS, 3, COMPUTE | COPY },
                       { "16 blocks, 2 queues, pinned memory", pinned, BLOCKS, 2, COMPUTE | COPY } };
    static double ms[KINDS][ROUNDS];
    int count = pinned ? KINDS : PINNED;
    for (int r = -2; r < ROUNDS; r++)
        for (int k = 0; k < count; k++) {
            double once = run(kinds[k].image, kinds[k].blocks, kinds[k].queues, kinds[k].does);
            if (r >= 0)
                ms[k][r] = once;
        }
    for (int k = 0; k < count; k++)
        report("overlap", kinds[k].name, "ms", ms[k], ROUNDS);
    /* Sorted by now. */
    report_value("overlap", "copy / compute", "x", ms[COPIED][ROUNDS / 2] / ms[COMPUTED][ROUNDS / 2]);
    for (int k = PIPELINED; k < count; k++) {
        char what[80];
        snprintf(what, sizeof what, "speedup, %s", kinds[k].name);
        report_value("overlap", what, "x", ms[WHOLE][ROUNDS / 2] / ms[k][ROUNDS / 2]);
    }
    if (context && acc_memcpy_d2d) {
        RAW(cuCtxPushCurrent_v2, context);
        ideal(image, ms[COPIED][ROUNDS / 2]);
        RAW(cuCtxPopCurrent_v2, &popped);
    }
    run(image, 1, 1, COMPUTE | COPY);
    memcpy(expected, image, bytes);
    int right = 1;
    for (int k = PIPELINED; k < count; k++)
        right &= same(kinds[k].image, expected, kinds[k].blocks, kinds[k].queues);
    report_value("overlap", "right", "", right);
#pragma acc exit data delete(image[0:bytes])
    if (pinned) {
#pragma acc exit data delete(pinned[0:bytes])
    }
    free(image), free(expected);
    return 0;
}
