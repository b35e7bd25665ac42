/* Laplace's equation by Jacobi's method, the rows of the grid shared out to all devices.
 *
 * A device holds its own rows and one more on each side, the halo. After each sweep neighbours exchange
 * their outermost rows with acc_memcpy_d2d: from device to device, not through this program's memory.
 * The result must be equal to the host's, bit for bit. */
#include <math.h>
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* OpenACC 3.3, 3.2.30. GCC 12 does not declare it and its own library lacks it, hence weak: it is NULL there. */
extern void acc_memcpy_d2d(void *dst_host, void *src_host, size_t bytes, int dst_device, int src_device)
    __attribute__((weak));

static int rows = 256, cols = 256, sweeps = 200;
static double tolerance = 1e-5;
enum { CHECK_EVERY = 20 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Hot upper edge, a warm spot at the left, cold elsewhere. */
static void initialize(double *grid)
{
    memset(grid, 0, (size_t)rows * cols * sizeof *grid);
    for (int j = 0; j < cols; j++)
        grid[j] = 100.0;
    grid[(size_t)(rows / 2) * cols] = 50.0;
}

#pragma acc routine seq
static double relaxed(const double *g, size_t at, int cols)
{
    return 0.25 * ((g[at - cols] + g[at + cols]) + (g[at - 1] + g[at + 1]));
}

/* ---- on the host --------------------------------------------------------------------- */

static int solve_host(double *grid, double *spare)
{
    int sweep = 0;
    for (double change = tolerance + 1; sweep < sweeps && change > tolerance; sweep++) {
        int check = sweep % CHECK_EVERY == 0;
        if (check)
            change = 0;
        for (int i = 1; i < rows - 1; i++)
            for (int j = 1; j < cols - 1; j++) {
                size_t at = (size_t)i * cols + j;
                spare[at] = relaxed(grid, at, cols);
                if (check)
                    change = fmax(change, fabs(spare[at] - grid[at]));
            }
        double *t = grid;
        grid = spare;
        spare = t;
    }
    return sweep;
}

/* ---- on all devices ------------------------------------------------------------------ */

static acc_device_t type;
static int devices;

/* Inner rows [first, end) belong to a device. */
static int first_row(int device)
{
    return 1 + (int)((long)device * (rows - 2) / devices);
}

static void sweep_tile(const double *old, double *new, int first, int end)
{
    size_t start = (size_t)(first - 1) * cols, count = (size_t)(end - first + 2) * cols;
#pragma acc parallel loop present(old[start:count], new[start:count]) async(1)
    for (int i = first; i < end; i++) {
#pragma acc loop vector
        for (int j = 1; j < cols - 1; j++)
            new[(size_t)i * cols + j] = relaxed(old, (size_t)i * cols + j, cols);
    }
}

static double change_of_tile(const double *old, const double *new, int first, int end)
{
    size_t start = (size_t)(first - 1) * cols, count = (size_t)(end - first + 2) * cols;
    double change = 0;
#pragma acc parallel loop present(old[start:count], new[start:count]) reduction(max:change)
    for (int i = first; i < end; i++) {
#pragma acc loop vector reduction(max:change)
        for (int j = 1; j < cols - 1; j++)
            change = fmax(change, fabs(new[(size_t)i * cols + j] - old[(size_t)i * cols + j]));
    }
    return change;
}

/* Gives row `row`, computed by device `from`, to device `to`. */
static void send_row(double *grid, int row, int from, int to)
{
    double *line = grid + (size_t)row * cols;
    if (acc_memcpy_d2d) {
        acc_memcpy_d2d(line, line, cols * sizeof *line, to, from);
        return;
    }
    acc_set_device_num(from, type);
#pragma acc update self(line[0:cols])
    acc_set_device_num(to, type);
#pragma acc update device(line[0:cols])
}

static int solve_devices(double *grid, double *spare)
{
    for (int d = 0; d < devices; d++) {
        size_t start = (size_t)(first_row(d) - 1) * cols;
        size_t count = (size_t)(first_row(d + 1) - first_row(d) + 2) * cols;
        acc_set_device_num(d, type);
#pragma acc enter data copyin(grid[start:count], spare[start:count])
    }
    double *old = grid, *new = spare;
    int sweep = 0;
    for (double change = tolerance + 1; sweep < sweeps && change > tolerance; sweep++) {
        for (int d = 0; d < devices; d++) {
            acc_set_device_num(d, type);
            sweep_tile(old, new, first_row(d), first_row(d + 1));
        }
        for (int d = 0; d < devices; d++) {
            acc_set_device_num(d, type);
#pragma acc wait(1)
        }
        for (int d = 0; d + 1 < devices; d++) {
            int border = first_row(d + 1);
            send_row(new, border - 1, d, d + 1);
            send_row(new, border, d + 1, d);
        }
        if (sweep % CHECK_EVERY == 0) {
            change = 0;
            for (int d = 0; d < devices; d++) {
                acc_set_device_num(d, type);
                change = fmax(change, change_of_tile(old, new, first_row(d), first_row(d + 1)));
            }
        }
        double *t = old;
        old = new;
        new = t;
    }
    for (int d = 0; d < devices; d++) {
        size_t start = (size_t)(first_row(d) - 1) * cols;
        size_t count = (size_t)(first_row(d + 1) - first_row(d) + 2) * cols;
        size_t own = (size_t)first_row(d) * cols;
        size_t own_count = (size_t)(first_row(d + 1) - first_row(d)) * cols;
        acc_set_device_num(d, type);
#pragma acc update self(grid[own:own_count], spare[own:own_count])
#pragma acc exit data delete(grid[start:count], spare[start:count])
    }
    return sweep;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        rows = atoi(argv[1]);
    if (argc > 2)
        cols = atoi(argv[2]);
    if (argc > 3)
        sweeps = atoi(argv[3]);
    if (rows < 3 || cols < 3 || sweeps < 1) {
        fprintf(stderr, "usage: jacobi [rows [columns [sweeps]]]\n");
        return 2;
    }
    size_t bytes = (size_t)rows * cols * sizeof(double);
    double *grids[4];
    for (int i = 0; i < 4; i++) {
        grids[i] = malloc(bytes);
        if (!grids[i]) {
            perror("jacobi");
            return 1;
        }
        initialize(grids[i]);
    }

    double start = now();
    int host_sweeps = solve_host(grids[0], grids[1]);
    printf("where=host devices=0 sweeps=%d seconds=%.3f\n", host_sweeps, now() - start);

    type = acc_get_num_devices(acc_device_nvidia) > 0 ? acc_device_nvidia : acc_get_device_type();
    devices = acc_get_num_devices(type);
    if (devices > rows - 2)
        devices = rows - 2;
    for (int d = 0; d < devices; d++) {
        acc_set_device_num(d, type);
#pragma acc parallel async(1)
        { }
#pragma acc wait(1)
    }
    start = now();
    int device_sweeps = solve_devices(grids[2], grids[3]);
    printf("where=devices devices=%d sweeps=%d seconds=%.3f exchange=%s\n", devices, device_sweeps, now() - start,
           devices < 2 ? "none" : acc_memcpy_d2d ? "d2d" : "host");

    int equal = host_sweeps == device_sweeps && !memcmp(grids[0], grids[2], bytes) && !memcmp(grids[1], grids[3], bytes);
    printf("equal=%s\n", equal ? "yes" : "no");
    for (int i = 0; i < 4; i++)
        free(grids[i]);
    return !equal;
}
