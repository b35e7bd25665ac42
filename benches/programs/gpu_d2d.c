/* Copies from one GPU to another, of one process or of two nodes, beside the driver's copy and a TCP stream. Large copies come
   several in a row: a GPU that had nothing to do for a while is slower at first, whatever drives it. What has "many in a row" has no
   pause before it, as memory_for_mpi.c. What has "each" is the time of single copies, of which the median says what a quiet one takes. "In a queue"
   are eight arrays by acc_memcpy_d2d_async and a wait, over eight.
   gpu_d2d [MIB]
   accord run --local-cluster 2x1gpu --remote-only --loopback -- gpu_d2d [MIB]
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_d2d.c -ldl */
#include "gpu_server.h"
#include <openacc.h>

enum { ROUNDS = 9, ROW = 4, SMALL_ROUNDS = 15, SMALL = 200, MIBS = 16, MANY = 30, WARM = 10, EACH = 1000, ARRAYS = 8 };

extern void acc_memcpy_d2d(void *dst_host, void *src_host, size_t bytes, int dst_device, int src_device)
    __attribute__((weak));
extern void acc_memcpy_d2d_async(void *dst_host, void *src_host, size_t bytes, int dst_device, int src_device, int queue)
    __attribute__((weak));

int main(int argc, char **argv)
{
    size_t bytes = (argc > 1 ? strtoull(argv[1], NULL, 0) : 256) << 20;
    int server = server_start(bytes), raw_gpus = server_count(server);
    if (!acc_memcpy_d2d || acc_get_num_devices(acc_device_nvidia) < 2) {
        fprintf(stderr, "skipped: acc_memcpy_d2d and two devices are needed\n");
        return 77;
    }
    char *from = malloc(bytes), *to = malloc(bytes);
    memset(from, 5, bytes);
    memset(to, 0, bytes);
    acc_set_device_num(0, acc_device_nvidia);
    acc_copyin(from, bytes);
    acc_set_device_num(1, acc_device_nvidia);
    acc_copyin(to, bytes);

    double stream[ROUNDS], raw_big[ROUNDS], big[ROUNDS], mib[ROUNDS], mibs[ROUNDS];
    for (int r = -2; r < ROUNDS; r++) {
        double s = server_stream(server, 's', from, bytes);
        double p = 1;
        /* The first of a row wakes the GPUs. */
        for (int i = 0; i < 2 && raw_gpus > 1; i++)
            p = server_raw(server, 'd', ROW, bytes);
        for (int i = 0; i < ROW; i++)
            acc_memcpy_d2d(to, from, bytes, 1, 0);
        double t0 = now_us();
        for (int i = 0; i < ROW; i++)
            acc_memcpy_d2d(to, from, bytes, 1, 0);
        double t1 = now_us();
        for (int i = 0; i < MIBS; i++)
            acc_memcpy_d2d(to, from, 1 << 20, 1, 0);
        double t2 = now_us();
        for (int i = 0; i < SMALL; i++)
            acc_memcpy_d2d(to, from, 1 << 20, 1, 0);
        double t3 = now_us();
        if (r >= 0) {
            stream[r] = bytes / s / 1e3, raw_big[r] = bytes / p / 1e3;
            big[r] = ROW * bytes / (t1 - t0) / 1e3, mib[r] = (MIBS << 20) / (t2 - t1) / 1e3;
            mibs[r] = ((double)SMALL * (1 << 20)) / (t3 - t2) / 1e3;
        }
    }
    double many[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        double t = 0;
        for (int i = r ? 0 : -WARM; i < MANY; i++) {
            if (i == 0)
                t = now_us();
            acc_memcpy_d2d(to, from, bytes, 1, 0);
        }
        many[r] = MANY * bytes / (now_us() - t) / 1e3;
    }
    double ping[SMALL_ROUNDS], raw_small[SMALL_ROUNDS], small[SMALL_ROUNDS];
    for (int r = -2; r < SMALL_ROUNDS; r++) {
        double p = 0, w = raw_gpus > 1 ? server_raw(server, 'd', SMALL, 8) : 0;
        for (int i = 0; i < SMALL; i++)
            p += server_ask(server, &(struct ask){ .what = 'p' });
        double t = now_us();
        for (int i = 0; i < SMALL; i++)
            acc_memcpy_d2d(to, from, 8, 1, 0);
        t = now_us() - t;
        if (r >= 0)
            ping[r] = p / SMALL, raw_small[r] = w, small[r] = t / SMALL;
    }
    static const struct { const char *name; size_t bytes; } lengths[] = {
        { "8 B, each", 8 }, { "64 KiB, each", 64 << 10 }, { "128 KiB, each", 128 << 10 }, { "1 MiB, each", 1 << 20 },
    };
    enum { LENGTHS = sizeof lengths / sizeof *lengths };
    static double each[LENGTHS][EACH];
    for (int l = 0; l < LENGTHS; l++)
        for (int i = 0; i < EACH; i++) {
            double t = now_us();
            acc_memcpy_d2d(to, from, lengths[l].bytes, 1, 0);
            each[l][i] = now_us() - t;
        }
    static double in_queue[LENGTHS][SMALL];
    for (int l = 0; l < LENGTHS; l++)
        for (int i = -10; i < SMALL; i++) {
            size_t part = bytes / ARRAYS < lengths[l].bytes ? bytes / ARRAYS : lengths[l].bytes;
            acc_set_device_num(0, acc_device_nvidia);
            double t = now_us();
            for (int a = 0; a < ARRAYS; a++)
                acc_memcpy_d2d_async(to + a * (bytes / ARRAYS), from + a * (bytes / ARRAYS), part, 1, 0, 1);
            acc_wait(1);
            if (i >= 0)
                in_queue[l][i] = (now_us() - t) / ARRAYS;
        }
    report("TCP", "stream there", "GB/s", stream, ROUNDS);
    report("TCP", "64 B there and back", "us", ping, SMALL_ROUNDS);
    if (raw_gpus > 1) {
        report("raw peer", "all", "GB/s", raw_big, ROUNDS);
        report("raw peer", "8 B", "us", raw_small, SMALL_ROUNDS);
    }
    report("acc_memcpy_d2d", "all", "GB/s", big, ROUNDS);
    report("acc_memcpy_d2d", "all, many in a row", "GB/s", many, ROUNDS);
    report("acc_memcpy_d2d", "1 MiB", "GB/s", mib, ROUNDS);
    report("acc_memcpy_d2d", "1 MiB, many in a row", "GB/s", mibs, ROUNDS);
    report("acc_memcpy_d2d", "8 B", "us", small, SMALL_ROUNDS);
    for (int l = 0; l < LENGTHS; l++)
        report("acc_memcpy_d2d", lengths[l].name, "us", each[l], EACH);
    static const char *const of_queues[LENGTHS] = { "8 B, in a queue", "64 KiB, in a queue", "128 KiB, in a queue", "1 MiB, in a queue" };
    for (int l = 0; l < LENGTHS; l++)
        report("acc_memcpy_d2d", of_queues[l], "us", in_queue[l], SMALL);
    acc_set_device_num(1, acc_device_nvidia);
    acc_copyout(to, bytes);
    size_t wrong = 0;
    for (size_t i = 0; i < bytes; i += 512)
        wrong += to[i] != 5;
    report_value("acc_memcpy_d2d", "right", "", !wrong && to[bytes - 1] == 5);
    acc_set_device_num(0, acc_device_nvidia);
    acc_delete(from, bytes);
    return wrong != 0;
}
