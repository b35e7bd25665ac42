/* CUDA Fortran beside CUDA by hand and OpenACC's update, in one process on the same arrays. Their rounds alternate.
   gpu_cuda_fortran [CUBIN|- [N]]: arrays of 2^N elements; the kernels by hand are those of by_hand.cu.
   Without a driver, or without kernels by hand, the other figures are left out. */
#include "../gpu_raw.h"
#include <openacc.h>

enum { ROUNDS = 15, LAUNCHES = 1000, WAITS = 300, KERNELS = 20, SIDE = 1024 };

void bench_start(long n);
void bench_addresses(raw_ptr all[6]);
void bench_empty(void);
void bench_wait(void);
void bench_triad(long n, double s);
void bench_mmul(void);
void bench_get_product(float *h);
void bench_to_device(const double *h, long n);
void bench_to_host(double *h, long n);

static long n;
/* Few rounds if the arrays are small, as on CPU devices. */
static int rounds = ROUNDS;
static double *host, *mapped;
static raw_ptr arrays[6];
static raw_handle context, stream, nothing, triad, mmul;

static void by_hand_empty(void)
{
    RAW(cuLaunchKernel, nothing, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
}

static void by_hand_wait(void)
{
    RAW(cuStreamSynchronize, stream);
}

static void by_hand_triad(void)
{
    double s = 3;
    void *parameters[] = { &arrays[0], &arrays[1], &arrays[2], &s, &n };
    RAW(cuLaunchKernel, triad, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, parameters, NULL);
}

static void by_hand_mmul(void)
{
    int side = SIDE;
    void *parameters[] = { &arrays[3], &arrays[4], &arrays[5], &side, &side, &side };
    RAW(cuLaunchKernel, mmul, SIDE / 16, SIDE / 16, 1, 16, 16, 1, 0, stream, parameters, NULL);
}

static void fortran_triad(void)
{
    bench_triad(n, 3);
}

static void to_device(void)
{
    bench_to_device(host, n);
}

static void to_host(void)
{
    bench_to_host(host, n);
}

static void update_device(void)
{
#pragma acc update device(mapped[0:n])
}

static void update_self(void)
{
#pragma acc update self(mapped[0:n])
}

/* A figure: `count` calls of `each` and one of `end`, in microseconds a call; or only the calls. */
struct side {
    const char *name;
    void (*each)(void), (*end)(void);
};
static struct figure {
    const char *what;
    int count, without_end;
    struct side sides[2];
} figures[] = {
    { "enqueue, empty kernel", LAUNCHES, 1, { { "cuda fortran", bench_empty, bench_wait }, { "by hand", by_hand_empty, by_hand_wait } } },
    { "triad, double", KERNELS, 0, { { "cuda fortran", fortran_triad, bench_wait }, { "by hand", by_hand_triad, by_hand_wait } } },
    { "matrix product", KERNELS, 0, { { "cuda fortran", bench_mmul, bench_wait }, { "by hand", by_hand_mmul, by_hand_wait } } },
    { "array to device", 1, 0, { { "cuda fortran", to_device, NULL }, { "update", update_device, NULL } } },
    { "array to host", 1, 0, { { "cuda fortran", to_host, NULL }, { "update", update_self, NULL } } },
};

static void fortran_launch(void)
{
    bench_empty();
    bench_wait();
}

static void by_hand_launch(void)
{
    by_hand_empty();
    by_hand_wait();
}

static struct figure waits = { "launch and wait, empty kernel", WAITS, 0, { { "cuda fortran", fortran_launch, NULL }, { "by hand", by_hand_launch, NULL } } };

static double timed(struct figure *figure, struct side *side)
{
    int count = rounds == 1 ? 1 : figure->count;
    double start = now_us();
    for (int i = 0; i < count; i++)
        side->each();
    double called = now_us();
    if (side->end)
        side->end();
    return ((figure->without_end ? called : now_us()) - start) / count;
}

static int is_left_out(struct side *side)
{
    return side->name[0] == 'b' && !mmul;
}

static void measure(struct figure *figure)
{
    static double times[2][ROUNDS];
    raw_handle popped;
    for (int round = rounds == 1 ? 0 : -2; round < rounds; round++)
        for (int at = 0; at < 2; at++) {
            struct side *side = &figure->sides[at];
            if (is_left_out(side))
                continue;
            int is_raw = side->name[0] == 'b';
            if (is_raw)
                RAW(cuCtxPushCurrent_v2, context);
            double time = timed(figure, side);
            if (is_raw)
                RAW(cuCtxPopCurrent_v2, &popped);
            if (round >= 0)
                times[at][round] = time;
        }
    for (int at = 0; at < 2; at++)
        if (!is_left_out(&figure->sides[at]))
            report(figure->sides[at].name, figure->what, "us", times[at], rounds);
}

static void load(const char *path)
{
    FILE *file = fopen(path, "rb");
    static char code[16 << 20];
    raw_handle module, popped;
    if (!file)
        return;
    size_t bytes = fread(code, 1, sizeof code, file);
    fclose(file);
    if (bytes == 0 || bytes == sizeof code || !raw_try_load())
        return;
    context = raw_context(0);
    RAW(cuModuleLoadData, &module, code);
    RAW(cuModuleGetFunction, &nothing, module, "nothing");
    RAW(cuModuleGetFunction, &triad, module, "triad");
    RAW(cuModuleGetFunction, &mmul, module, "mmul");
    RAW(cuStreamCreate, &stream, 1);
    RAW(cuCtxPopCurrent_v2, &popped);
}

static int is_product_right(void)
{
    static float got[SIDE][SIDE];
    bench_get_product(&got[0][0]);
    for (int j = 1; j <= SIDE; j += 171)
        for (int i = 1; i <= SIDE; i += 93) {
            float want = 0;
            for (int k = 1; k <= SIDE; k++)
                want += (i * 7 + k * 3) % 11 * ((k * 7 + j * 3) % 11);
            if (got[j - 1][i - 1] != want)
                return 0;
        }
    return 1;
}

int main(int argc, char **argv)
{
    int bits = argc > 2 ? atoi(argv[2]) : 27, right = 1;
    n = 1L << bits;
    if (bits < 20)
        rounds = 1;
    host = malloc(n * sizeof *host);
    mapped = malloc(n * sizeof *mapped);
    for (long i = 0; i < n; i++)
        host[i] = mapped[i] = i;
    bench_start(n);
    bench_addresses(arrays);
    load(argc > 1 ? argv[1] : "-");
    for (unsigned at = 0; at < sizeof figures / sizeof *figures; at++) {
        /* A present array is page-locked after sixteen copies, and other arrays are not: each figure has fewer until its last rounds. */
#pragma acc enter data copyin(mapped[0:n])
        measure(&figures[at]);
#pragma acc exit data delete(mapped[0:n])
        /* After the triad, before the host's array comes to the device. */
        if (at == 1) {
            double *got = malloc(n * sizeof *got);
            bench_to_host(got, n);
            right &= got[0] == 7 && got[n / 3] == 7 && got[n - 1] == 7;
            free(got);
        }
    }
    measure(&waits);
    right &= is_product_right() && host[n - 1] == n - 1 && mapped[n - 1] == n - 1;
    report_value("cuda fortran", "right", "", right);
    return !right;
}
