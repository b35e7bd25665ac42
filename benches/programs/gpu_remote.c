/* What a GPU of another host costs, beside what lies in between: TCP between the same addresses, and the driver called
   by hand in a process at the other end. To be run where device 0 is remote:
   accord run --local-cluster 1x1gpu --remote-only --loopback -- gpu_remote [MIB]
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_remote.c -ldl */
#include "gpu_server.h"
#include <openacc.h>

enum { ROUNDS = 15, EACH = 200, BURSTS = 5, BURST = 200, BIG_ROUNDS = 9, N = 1024 };

static double a[N], b[N], c[N], d[N];

static void empty(int queue)
{
#pragma acc parallel num_gangs(1) async(queue)
    {
    }
}

static void four_arrays(int n, double s, int queue)
{
#pragma acc parallel loop gang vector present(a, b, c, d) num_gangs(1) async(queue)
    for (int i = 0; i < n; i++)
        a[i] = b[i] + s * c[i] + d[i];
}

static void region(int kind)
{
    if (kind)
        four_arrays(32, 0.5, 1);
    else
        empty(1);
}

/* Asynchronous regions: until the call returns, and with what there is to wait for at the end. */
static void burst(int kind, double *enqueue, double *each)
{
    *enqueue = *each = 0;
    for (int i = 0; i < BURSTS; i++) {
        double t0 = now_us();
        for (int k = 0; k < BURST; k++)
            region(kind);
        double t1 = now_us();
        acc_wait(1);
        *enqueue += (t1 - t0) / (BURSTS * BURST);
        *each += (now_us() - t0) / (BURSTS * BURST);
    }
}

static double launch_and_wait(int kind)
{
    double start = now_us();
    for (int i = 0; i < EACH; i++) {
        region(kind);
        acc_wait(1);
    }
    return (now_us() - start) / EACH;
}

int main(int argc, char **argv)
{
    size_t bytes = (argc > 1 ? strtoull(argv[1], NULL, 0) : 256) << 20;
    int server = server_start(bytes), raw_gpus = server_count(server);
    char *data = malloc(bytes);
    memset(data, 3, bytes);
    for (int i = 0; i < N; i++)
        b[i] = 1, c[i] = 2, d[i] = 3;
    acc_set_device_num(0, acc_device_nvidia);
#pragma acc enter data copyin(a, b, c, d) create(data[0:bytes])

    enum { PING, RAW, BOTH, WAIT, WAIT4, ENQUEUE, ENQUEUE4, MANY, MANY4, KINDS };
    static double x[KINDS][ROUNDS];
    for (int r = -2; r < ROUNDS; r++) {
        double v[KINDS] = { 0 };
        for (int i = 0; i < EACH; i++)
            v[PING] += server_ask(server, &(struct ask){ .what = 'p' }) / EACH;
        if (raw_gpus) {
            v[RAW] = server_raw(server, 'L', EACH, 0);
            for (int i = 0; i < EACH; i++)
                v[BOTH] += server_ask(server, &(struct ask){ .what = 'l', .count = 1 }) / EACH;
        }
        v[WAIT] = launch_and_wait(0);
        v[WAIT4] = launch_and_wait(1);
        burst(0, &v[ENQUEUE], &v[MANY]);
        burst(1, &v[ENQUEUE4], &v[MANY4]);
        for (int k = 0; k < KINDS && r >= 0; k++)
            x[k][r] = v[k];
    }
    report("TCP", "64 B there and back", "us", x[PING], ROUNDS);
    if (raw_gpus) {
        report("raw", "launch and wait", "us", x[RAW], ROUNDS);
        report("raw over TCP", "launch and wait", "us", x[BOTH], ROUNDS);
    }
    report("empty region", "enqueue", "us", x[ENQUEUE], ROUNDS);
    report("empty region", "each of many", "us", x[MANY], ROUNDS);
    report("empty region", "launch and wait", "us", x[WAIT], ROUNDS);
    report("4 arrays and 2 scalars", "enqueue", "us", x[ENQUEUE4], ROUNDS);
    report("4 arrays and 2 scalars", "each of many", "us", x[MANY4], ROUNDS);
    report("4 arrays and 2 scalars", "launch and wait", "us", x[WAIT4], ROUNDS);

    double in[ROUNDS], out[ROUNDS], raw_in[ROUNDS], raw_out[ROUNDS];
    for (int r = -2; r < ROUNDS; r++) {
        double raw_i = raw_gpus ? server_raw(server, 'i', EACH, 0) : 0, raw_o = raw_gpus ? server_raw(server, 'o', EACH, 0) : 0;
        double t0 = now_us();
        for (int i = 0; i < EACH; i++) {
#pragma acc update device(data[0:8])
        }
        double t1 = now_us();
        acc_wait_all();
        double t2 = now_us();
        for (int i = 0; i < EACH; i++) {
#pragma acc update self(data[0:8])
        }
        double t3 = now_us();
        if (r >= 0)
            in[r] = (t1 - t0) / EACH, out[r] = (t3 - t2) / EACH, raw_in[r] = raw_i, raw_out[r] = raw_o;
    }
    if (raw_gpus) {
        report("raw", "8 B to device", "us", raw_in, ROUNDS);
        report("raw", "8 B to host", "us", raw_out, ROUNDS);
    }
    report("update", "8 B to device", "us", in, ROUNDS);
    report("update", "8 B to host", "us", out, ROUNDS);

    enum { SENT, TAKEN, IN, OUT, RETURN, IN_ASYNC, COPIES };
    static double y[COPIES][BIG_ROUNDS];
    for (int r = -1; r < BIG_ROUNDS; r++) {
        double v[COPIES];
        v[SENT] = bytes / server_stream(server, 's', data, bytes) / 1e3;
        v[TAKEN] = bytes / server_stream(server, 'g', data, bytes) / 1e3;
        memset(data, 3 + (r & 1), bytes);
        double t = now_us();
#pragma acc update device(data[0:bytes])
        /* Until it has landed: the raw sender waits for the receiver's word too. */
        acc_wait_all();
        v[IN] = bytes / (now_us() - t) / 1e3;
        memset(data, 0, bytes);
        t = now_us();
#pragma acc update self(data[0:bytes])
        v[OUT] = bytes / (now_us() - t) / 1e3;
        for (size_t i = 0; i < bytes; i += 4096)
            if (data[i] != 3 + (r & 1)) {
                printf("{\"bench\": \"update\", \"what\": \"WRONG at %zu\", \"value\": 0}\n", i);
                return 1;
            }
        t = now_us();
#pragma acc update device(data[0:bytes]) async(1)
        v[RETURN] = now_us() - t;
        acc_wait(1);
        v[IN_ASYNC] = bytes / (now_us() - t) / 1e3;
        for (int k = 0; k < COPIES && r >= 0; k++)
            y[k][r] = v[k];
    }
    report("TCP", "stream there", "GB/s", y[SENT], BIG_ROUNDS);
    report("TCP", "stream back", "GB/s", y[TAKEN], BIG_ROUNDS);
    report("update", "host to device", "GB/s", y[IN], BIG_ROUNDS);
    report("update", "device to host", "GB/s", y[OUT], BIG_ROUNDS);
    report("update async", "host to device, until the call returns", "us", y[RETURN], BIG_ROUNDS);
    report("update async", "host to device", "GB/s", y[IN_ASYNC], BIG_ROUNDS);
#pragma acc exit data copyout(a) delete(b, c, d, data[0:bytes])
    report_value("kernels", "right", "", a[0] == 5 && a[31] == 5 && a[32] == 0);
    return 0;
}
