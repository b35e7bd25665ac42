/* What many small updates cost: parts of an array's rows one by one, as loops over `update` do, beside the driver's copies of each
   row, and of all of them at once (cuMemcpy2D).
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_rows.c -ldl
   Argument: rows. */
#include "gpu_raw.h"
#include <openacc.h>
#include <string.h>

enum { ROUNDS = 15 };

struct copy_2d { /* CUDA_MEMCPY2D */
    size_t src_x, src_y;
    unsigned src_type;
    const void *src_host;
    raw_ptr src_device;
    raw_handle src_array;
    size_t src_pitch, dst_x, dst_y;
    unsigned dst_type;
    void *dst_host;
    raw_ptr dst_device;
    raw_handle dst_array;
    size_t dst_pitch, width, height;
};

static int rows = 1000;
static size_t pitch, width;

enum { IN, OUT };
enum { EACH, ASYNC, AT_ONCE };

/* All rows one way by the driver; in microseconds. */
static double by_hand(char *host, raw_ptr device, int way, int how, raw_handle stream)
{
    static int (*copy_2d)(const struct copy_2d *);
    static int (*in_async)(raw_ptr, const void *, size_t, raw_handle);
    if (!copy_2d) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW);
        *(void **)&copy_2d = dlsym(driver, "cuMemcpy2DUnaligned_v2");
        *(void **)&in_async = dlsym(driver, "cuMemcpyHtoDAsync_v2");
    }
    double t = now_us();
    if (how == AT_ONCE) {
        struct copy_2d in = { .src_type = 1, .src_host = host, .src_pitch = pitch, .dst_type = 2, .dst_device = device,
                              .dst_pitch = pitch, .width = width, .height = rows };
        struct copy_2d out = { .src_type = 2, .src_device = device, .src_pitch = pitch, .dst_type = 1, .dst_host = host,
                               .dst_pitch = pitch, .width = width, .height = rows };
        if (!copy_2d || copy_2d(way == IN ? &in : &out))
            return 0;
        return now_us() - t;
    }
    for (int i = 0; i < rows; i++)
        if (way == IN && how == EACH)
            RAW(cuMemcpyHtoD_v2, device + i * pitch, host + i * pitch, width);
        else if (way == IN)
            in_async(device + i * pitch, host + i * pitch, width, stream);
        else if (how == EACH)
            RAW(cuMemcpyDtoH_v2, host + i * pitch, device + i * pitch, width);
        else
            RAW(cuMemcpyDtoHAsync_v2, host + i * pitch, device + i * pitch, width, stream);
    if (how == ASYNC)
        RAW(cuStreamSynchronize, stream);
    return now_us() - t;
}

/* The same by OpenACC. What is not waited for is there when a byte comes back behind it. */
static double by_update(char *host, int way, int how)
{
    double t = now_us();
    for (int i = 0; i < rows; i++) {
        char *row = host + i * pitch;
        if (way == IN && how == EACH) {
#pragma acc update device(row[0:width])
        } else if (way == IN) {
#pragma acc update device(row[0:width]) async(1)
        } else if (how == EACH) {
#pragma acc update self(row[0:width])
        } else {
#pragma acc update self(row[0:width]) async(1)
        }
    }
#pragma acc wait(1)
    if (way == IN && how == EACH) {
#pragma acc update self(host[0:1])
    }
    return now_us() - t;
}

int main(int argc, char **argv)
{
    static const size_t widths[] = { 256, 4096, 32768 };
    static const char *const ways[] = { "to device", "to host" }, *const hows[] = { "each waited for", "async", "at once" };
    rows = argc > 1 ? atoi(argv[1]) : rows;
    for (int w = 0; w < 3; w++) {
        width = widths[w], pitch = 2 * width;
        size_t bytes = rows * pitch;
        char *host = malloc(bytes), what[80];
        raw_handle context = NULL, stream, popped;
        raw_ptr device = 0;
        double us[ROUNDS];
        memset(host, 1, bytes);
        if (raw_try_load() && (context = raw_context(0))) {
            RAW(cuMemAlloc_v2, &device, bytes);
            RAW(cuStreamCreate, &stream, 1);
        }
        for (int way = 0; way < 2 && context; way++)
            for (int how = 0; how < 3; how++) {
                for (int r = -3; r < ROUNDS; r++) {
                    double all = by_hand(host, device, way, how, stream);
                    if (r >= 0)
                        us[r] = all / rows;
                }
                snprintf(what, sizeof what, "%zu B %s, %s", width, ways[way], hows[how]);
                report("rows by hand", what, "us", us, ROUNDS);
            }
        if (context) {
            RAW(cuMemFree_v2, device);
            RAW(cuCtxPopCurrent_v2, &popped);
        }
#pragma acc enter data create(host[0:bytes])
        int wrong = 0;
        for (int way = 0; way < 2; way++)
            for (int how = 0; how < 2; how++) {
                for (size_t i = 0; i < bytes; i++)
                    host[i] = i * 7 + how + w;
                for (int r = -3; r < ROUNDS; r++) {
                    double all = by_update(host, way, how);
                    if (r >= 0)
                        us[r] = all / rows;
                }
                snprintf(what, sizeof what, "%zu B %s, %s", width, ways[way], hows[how]);
                report("rows", what, "us", us, ROUNDS);
                /* What went to the device comes back from there. */
                if (way == IN) {
                    memset(host, 0, bytes);
                    by_update(host, OUT, how);
                    for (size_t i = 0; i < bytes; i++)
                        wrong += host[i] != (i % pitch < width ? (char)(i * 7 + how + w) : 0);
                }
            }
#pragma acc exit data delete(host[0:bytes])
        report_value("rows", "right", "", !wrong);
        free(host);
    }
    return 0;
}
