/* Jacobi's method on a grid whose rows are shared out to GPUs, in two shapes of the same program: one process with all devices, whose halos
   go by acc_memcpy_d2d_async; and with WITH_MPI one rank a GPU, whose halos its own MPI takes from host_data addresses. In both a sweep is a
   kernel, then the exchange of the outermost rows, then a wait.
   gpu_jacobi [N [SWEEPS]]
   gcc -O2 -fopenacc -foffload=nvptx-none gpu_jacobi.c -ldl
   mpicc -DWITH_MPI -O2 -fopenacc -foffload=nvptx-none gpu_jacobi.c -o gpu_jacobi_mpi -ldl
   The same grid comes out of both, to the last bit: "sum" shows it. */
#include "gpu_raw.h"
#include <openacc.h>
#include <stdint.h>
#include <string.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif

enum { ROUNDS = 9, DEVICES_MAX = 16, QUEUE = 1 };

extern void acc_memcpy_d2d_async(void *dst_host, void *src_host, size_t bytes, int dst_device, int src_device, int queue)
    __attribute__((weak));

static int n = 16384, sweeps = 100;
/* The grid's: one for each device, or rank. */
static int parts;
#ifdef WITH_MPI
/* This rank's. */
static int part;
#endif
/* The first row of `grids` in the whole grid: a rank has its own rows and one more on each side. */
static int base;
static double *grids[2];
static acc_device_t type;

/* Inner rows [first_row(p), first_row(p + 1)) belong to a part. */
static int first_row(int p)
{
    return 1 + (int)((long)p * (n - 2) / parts);
}

static double *row(int grid, int r)
{
    return grids[grid] + (size_t)(r - base) * n;
}

static void sweep_part(int from, int to, int p)
{
    int rows = first_row(p + 1) - first_row(p), cols = n;
    const double *restrict old = row(from, first_row(p) - 1);
    double *restrict new = row(to, first_row(p) - 1);
    size_t count = (size_t)(rows + 2) * cols;
    #pragma acc parallel loop gang present(old[0:count], new[0:count]) async(QUEUE)
    for (int i = 1; i <= rows; i++) {
        #pragma acc loop vector
        for (int j = 1; j < cols - 1; j++) {
            size_t at = (size_t)i * cols + j;
            new[at] = 0.25 * ((old[at - cols] + old[at + cols]) + (old[at - 1] + old[at + 1]));
        }
    }
}

#ifdef WITH_MPI
static void sweep(int from, int to)
{
    sweep_part(from, to, part);
    #pragma acc wait(QUEUE)
    double *first = row(to, first_row(part)), *last = row(to, first_row(part + 1) - 1);
    double *above = first - n, *below = last + n;
    int up = part > 0 ? part - 1 : MPI_PROC_NULL, down = part + 1 < parts ? part + 1 : MPI_PROC_NULL;
    #pragma acc host_data use_device(first, last, above, below)
    {
        MPI_Request open[4];
        MPI_Irecv(above, n, MPI_DOUBLE, up, 0, MPI_COMM_WORLD, &open[0]);
        MPI_Irecv(below, n, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &open[1]);
        MPI_Isend(first, n, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &open[2]);
        MPI_Isend(last, n, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, &open[3]);
        MPI_Waitall(4, open, MPI_STATUSES_IGNORE);
    }
}

static void enter(int p)
{
    part = p;
}

static void all_are_here(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}
#else
static void enter(int p)
{
    acc_set_device_num(p, type);
}

static void sweep(int from, int to)
{
    for (int p = 0; p < parts; p++) {
        enter(p);
        sweep_part(from, to, p);
    }
    for (int p = 0; p + 1 < parts; p++) {
        double *last = row(to, first_row(p + 1) - 1), *first = last + n;
        acc_memcpy_d2d_async(last, last, n * sizeof *last, p + 1, p, QUEUE);
        acc_memcpy_d2d_async(first, first, n * sizeof *first, p, p + 1, QUEUE);
    }
    for (int p = 0; p < parts; p++) {
        enter(p);
        acc_wait(QUEUE);
    }
}

static void all_are_here(void)
{
}
#endif

/* What of a grid a part computes, as a number that the last bit changes, and that hangs on no order of the parts. */
static uint64_t sum_of(int grid, int p)
{
    uint64_t sum = 0;
    for (int r = first_row(p); r < first_row(p + 1); r++) {
        uint64_t of_row = (uint64_t)r;
        for (int j = 0; j < n; j++) {
            uint64_t bits;
            memcpy(&bits, row(grid, r) + j, sizeof bits);
            of_row = of_row * 31 + bits;
        }
        sum += of_row;
    }
    return sum;
}

/* Moves a part's rows and their halos to its device, or from there. */
static void move(int p, int in)
{
    size_t count = (size_t)(first_row(p + 1) - first_row(p) + 2) * n;
    enter(p);
    for (int g = 0; g < 2; g++) {
        double *rows = row(g, first_row(p) - 1);
        if (in)
            acc_copyin(rows, count * sizeof *rows);
        else
            acc_update_self(rows, count * sizeof *rows);
    }
}

int main(int argc, char **argv)
{
    n = argc > 1 ? atoi(argv[1]) : n;
    sweeps = argc > 2 ? atoi(argv[2]) : sweeps;
#ifdef WITH_MPI
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &parts);
    MPI_Comm_rank(MPI_COMM_WORLD, &part);
#endif
    type = acc_get_num_devices(acc_device_nvidia) > 0 ? acc_device_nvidia : acc_device_default;
    int devices = acc_get_num_devices(type);
#ifdef WITH_MPI
    acc_set_device_num(part % devices, type);
    int first_part = part, end_part = part + 1;
    base = first_row(part) - 1;
    size_t rows = (size_t)(first_row(part + 1) - base + 1);
#else
    parts = devices < DEVICES_MAX ? devices : DEVICES_MAX;
    int first_part = 0, end_part = parts;
    size_t rows = n;
    if (!acc_memcpy_d2d_async) {
        fprintf(stderr, "skipped: acc_memcpy_d2d_async is needed\n");
        return 77;
    }
#endif
    if (n < 3 || sweeps < 2 || parts > n - 2) {
        fprintf(stderr, "usage: gpu_jacobi [N [SWEEPS]]: a grid of N x N with a row for each device, two sweeps or more\n");
        return 2;
    }
    for (int g = 0; g < 2; g++) {
        grids[g] = malloc(rows * n * sizeof(double));
        if (!grids[g]) {
            perror("gpu_jacobi");
            return 1;
        }
        for (size_t i = 0; i < rows * n; i++)
            grids[g][i] = base == 0 && i < (size_t)n ? 100 : (double)((i + (size_t)base * n) % 1009) / 1009;
    }
    for (int p = first_part; p < end_part; p++)
        move(p, 1);

    double ms[ROUNDS];
    for (int r = -2, s = 0; r < ROUNDS; r++) {
        all_are_here();
        double start = now_us();
        for (int k = 0; k < sweeps; k++, s++)
            sweep(s % 2, (s + 1) % 2);
        all_are_here();
        if (r >= 0)
            ms[r] = (now_us() - start) / 1e3 / sweeps;
    }
    unsigned long long sum = 0;
    for (int p = first_part; p < end_part; p++) {
        move(p, 0);
        sum += sum_of(0, p) * 3 + sum_of(1, p);
    }
#ifdef WITH_MPI
    unsigned long long all;
    MPI_Reduce(&sum, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    sum = all;
    if (part == 0)
#endif
    {
        char what[40];
        snprintf(what, sizeof what, "%d, a sweep over %d", n, parts);
        report("jacobi", what, "ms", ms, ROUNDS);
        printf("{\"bench\": \"jacobi\", \"what\": \"%d, sum\", \"value\": \"%llx\"}\n", n, sum);
    }
#ifdef WITH_MPI
    MPI_Finalize();
#endif
    return 0;
}
