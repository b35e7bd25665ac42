/* What a program's own GPU-aware MPI makes of host_data addresses, beside memory of cuMemAlloc in the same process: half a ping-pong
   between two ranks with a GPU each. scripts/gpu-mpi compiles and runs it. */
#include <dlfcn.h>
#include <mpi.h>
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZES = 5, TURNS = 5 };
static const size_t sizes[SIZES] = {8, 1 << 20, 16 << 20, 256 << 20, 1 << 30};

static double half_a_ping_pong(void *p, size_t bytes, int rank)
{
    int rounds = bytes > 4 << 20 ? 10 : 200, n = (int)bytes;
    double start = 0;
    for (int i = -3; i < rounds; i++) {
        if (i == 0) {
            MPI_Barrier(MPI_COMM_WORLD);
            start = MPI_Wtime();
        }
        if (rank == 0)
            MPI_Send(p, n, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(p, n, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(p, n, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - start) / rounds / 2;
}

static int less(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void *raw_memory(size_t bytes)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*enter)(void *) = (int (*)(void *))dlsym(driver, "cuCtxPushCurrent_v2");
    int (*allocate)(unsigned long long *, size_t) = (int (*)(unsigned long long *, size_t))dlsym(driver, "cuMemAlloc_v2");
    unsigned long long at = 0;
    if (enter(acc_get_current_cuda_context()) || allocate(&at, bytes))
        exit(2);
    return (void *)at;
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    acc_set_device_num(rank, acc_device_nvidia);
    size_t most = sizes[SIZES - 1], words = most / 8;
    long *data = malloc(most), wrong = 0;
    for (size_t i = 0; i < words; i++)
        data[i] = rank ? -1 : (long)i;
    #pragma acc enter data copyin(data[0:words])
    void *raw = raw_memory(most), *given;
    #pragma acc host_data use_device(data)
    given = data;
    /* What comes is what was sent, before anything is measured. */
    if (rank == 0)
        MPI_Send(given, (int)most, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    else
        MPI_Recv(given, (int)most, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    #pragma acc update self(data[0:words])
    for (size_t i = 0; i < words; i++)
        wrong += data[i] != (long)i;
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"address\": \"%p\", \"raw_address\": \"%p\", \"wrong\": %ld", given, raw, wrong);
    for (int s = 0; s < SIZES; s++) {
        double ours[TURNS], theirs[TURNS];
        for (int turn = 0; turn < TURNS; turn++) {
            theirs[turn] = half_a_ping_pong(raw, sizes[s], rank);
            ours[turn] = half_a_ping_pong(given, sizes[s], rank);
        }
        qsort(ours, TURNS, sizeof *ours, less);
        qsort(theirs, TURNS, sizeof *theirs, less);
        if (rank == 0)
            printf(", \"%zu\": {\"host_data_us\": %.3f, \"raw_us\": %.3f}", sizes[s], ours[TURNS / 2] * 1e6, theirs[TURNS / 2] * 1e6);
    }
    if (rank == 0)
        printf("}\n");
    #pragma acc exit data delete(data[0:words])
    MPI_Finalize();
    return wrong != 0;
}
