/* Does computing hide copying? A Mandelbrot picture whose kernels take as long as its copy to the host: the iteration
   limit is chosen so, in the run. Computed and copied as a whole, and in blocks over two queues; blocks are rows next
   to each other, whose work differs, or rows dealt out, whose work does not.
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_overlap.c -ldl
   Arguments: size of the picture, blocks. */
#include "gpu_raw.h"
#include <openacc.h>
#include <string.h>

enum { ROUNDS = 11, BLOCKS_MAX = 64, EVENTS_QUEUE = 7 };

static unsigned char *image;
static int size, blocks, iterations = 64;

/* Rows from..to of the stored picture; row k of them is row first + k * step of the drawn one. */
static void rows(unsigned char *restrict at, int from, int to, int first, int step, int queue)
{
#pragma acc parallel loop collapse(2) gang vector present(at[0:(size_t)size * size]) async(queue)
    for (int k = 0; k < to - from; k++)
        for (int x = 0; x < size; x++) {
            double cr = -2 + 3.0 * x / size, ci = -1.5 + 3.0 * (first + k * step) / size, zr = 0, zi = 0;
            int n = 0;
            while (n < iterations && zr * zr + zi * zi < 4) {
                double t = zr * zr - zi * zi + cr;
                zi = 2 * zr * zi + ci;
                zr = t;
                n++;
            }
            at[(size_t)(from + k) * size + x] = n;
        }
}

static int start_of(int block, int of)
{
    return (long)size * block / of;
}

static void compute(int block, int of, int dealt, int queue)
{
    rows(image, start_of(block, of), start_of(block + 1, of), dealt ? block : start_of(block, of), dealt ? of : 1, queue);
}

static void copy(int block, int of, int queue)
{
    size_t from = (size_t)start_of(block, of) * size, bytes = (size_t)start_of(block + 1, of) * size - from;
#pragma acc update self(image[from:bytes]) async(queue)
}

/* Computes or copies all blocks, or both; in milliseconds. */
static double run(int of, int queues, int dealt, int computes, int copies)
{
    double start = now_us();
    for (int i = 0; i < of; i++) {
        if (computes)
            compute(i, of, dealt, i % queues);
        if (copies)
            copy(i, of, i % queues);
    }
#pragma acc wait
    return (now_us() - start) / 1e3;
}

static double median(double *values, int n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

static double typical(int computes, int copies)
{
    double ms[5];
    run(1, 1, 0, computes, copies);
    for (int i = 0; i < 5; i++)
        ms[i] = run(1, 1, 0, computes, copies);
    return median(ms, 5);
}

/* Chooses the iteration limit: a kernel's time is a constant and a part that grows with the limit. */
static void choose_iterations(void)
{
    double aim = typical(0, 1);
    for (int tries = 0; tries < 20; tries++) {
        double ms = typical(1, 0);
        if (ms > 0.97 * aim && ms < 1.03 * aim)
            return;
        double next = iterations * aim / ms;
        int limit = next < 1 ? 1 : next > 20000 ? 20000 : (int)(next + 0.5);
        if (limit == iterations)
            return;
        iterations = limit;
    }
}

/* How long the blocks' kernels take, one after the other, by events of the driver; and with that and the copies' rate
   the least that two queues need: one kernel at a time, one copy at a time, block i + 2 after block i. */
static void ideal(int dealt, double copy_ms, raw_handle context, const char *bench)
{
    raw_handle events[BLOCKS_MAX + 1], popped, stream;
    double sum = 0, done_kernel = 0, done_copy[BLOCKS_MAX + 2] = { 0 };
    compute(0, blocks, dealt, EVENTS_QUEUE);
    acc_wait(EVENTS_QUEUE);
    stream = acc_get_cuda_stream(EVENTS_QUEUE);
    if (!stream)
        return;
    RAW(cuCtxPushCurrent_v2, context);
    for (int i = 0; i <= blocks; i++)
        RAW(cuEventCreate, &events[i], 0);
    RAW(cuEventRecord, events[0], stream);
    for (int i = 0; i < blocks; i++) {
        compute(i, blocks, dealt, EVENTS_QUEUE);
        RAW(cuEventRecord, events[i + 1], stream);
    }
    RAW(cuEventSynchronize, events[blocks]);
    for (int i = 0; i < blocks; i++) {
        float ms;
        RAW(cuEventElapsedTime, &ms, events[i], events[i + 1]);
        double each = copy_ms / blocks, from = done_kernel > done_copy[i] ? done_kernel : done_copy[i];
        sum += ms;
        done_kernel = from + ms;
        done_copy[i + 2] = (done_kernel > done_copy[i + 1] ? done_kernel : done_copy[i + 1]) + each;
    }
    RAW(cuCtxPopCurrent_v2, &popped);
    report_value(bench, "kernels of all blocks, by events", "ms", sum);
    report_value(bench, "ideal: the longer of kernels and copy, and a block of the other", "ms",
                 (sum > copy_ms ? sum : copy_ms) + (sum > copy_ms ? copy_ms : sum) / blocks);
    report_value(bench, "ideal: block by block", "ms", done_copy[blocks + 1]);
}

int main(int argc, char **argv)
{
    size = argc > 1 ? atoi(argv[1]) : 16384;
    blocks = argc > 2 ? atoi(argv[2]) : 32;
    if (blocks < 2 || blocks > BLOCKS_MAX || size < blocks)
        return fprintf(stderr, "2 to %d blocks, and as many rows\n", BLOCKS_MAX), 2;
    size_t bytes = (size_t)size * size;
    image = malloc(bytes);
    memset(image, 0, bytes);
#pragma acc enter data create(image[0:bytes])
    choose_iterations();
    report_value("overlap", "iterations", "", iterations);

    enum { COMPUTE, COPY, WHOLE, ADJACENT_1, ADJACENT, DEALT_1, DEALT, KINDS };
    const char *names[KINDS] = { "compute only", "copy only", "as a whole", "adjacent rows, 1 queue", "adjacent rows, 2 queues",
                                 "dealt rows, 1 queue", "dealt rows, 2 queues" };
    static double ms[KINDS][ROUNDS];
    for (int r = -2; r < ROUNDS; r++) {
        double v[KINDS] = { run(1, 1, 0, 1, 0),      run(1, 1, 0, 0, 1),      run(1, 1, 0, 1, 1),     run(blocks, 1, 0, 1, 1),
                            run(blocks, 2, 0, 1, 1), run(blocks, 1, 1, 1, 1), run(blocks, 2, 1, 1, 1) };
        for (int k = 0; k < KINDS && r >= 0; k++)
            ms[k][r] = v[k];
    }
    for (int k = 0; k < KINDS; k++)
        report("overlap", names[k], "ms", ms[k], ROUNDS);
    /* Sorted by now. */
    double whole = ms[WHOLE][ROUNDS / 2], copied = ms[COPY][ROUNDS / 2];
    report_value("overlap", "copy / compute", "x", copied / ms[COMPUTE][ROUNDS / 2]);
    report_value("overlap", "speedup, adjacent rows", "x", whole / ms[ADJACENT][ROUNDS / 2]);
    report_value("overlap", "speedup, dealt rows", "x", whole / ms[DEALT][ROUNDS / 2]);
    /* The last picture's rows were dealt out: the same picture otherwise. */
    unsigned char *other = malloc(bytes);
    memcpy(other, image, bytes);
    run(blocks, 2, 0, 1, 1);
    int right = 1;
    for (int i = 0; i < blocks; i++)
        for (int k = 0; k < start_of(i + 1, blocks) - start_of(i, blocks); k++)
            right &= i + k * blocks >= size || !memcmp(other + (size_t)(start_of(i, blocks) + k) * size,
                                                       image + (size_t)(i + k * blocks) * size, size);
    report_value("overlap", "right", "", right);
    free(other);
    raw_handle context;
    if (raw_try_load() && (context = raw_context(0))) {
        raw_handle popped;
        RAW(cuCtxPopCurrent_v2, &popped);
        ideal(0, copied, context, "overlap, adjacent rows");
        ideal(1, copied, context, "overlap, dealt rows");
    }
#pragma acc exit data delete(image[0:bytes])
    return 0;
}
