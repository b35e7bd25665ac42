// A program that uses MPI itself: its world is its own, with threads as asked for, and there is one MPI in its process. Each rank has a
// device; what is on one gets to the next rank's by MPI on host memory.
#include "check.h"
#include <mpi.h>
#include <string.h>

enum { N = 1 << 16 };
static int here[N], there[N];

/* Loaded objects with this in their name. */
static int loaded(const char *name)
{
    char line[4096], last[4096] = "";
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (path && strstr(path, name) && strcmp(path, last) != 0) {
            strcpy(last, path);
            count++;
        }
    }
    if (maps)
        fclose(maps);
    return count;
}

int main(int argc, char **argv)
{
    int rank, ranks, threads;
    MPI_Comm parent;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
    CHECK_EQ(threads, MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_get_parent(&parent);
    CHECK(parent == MPI_COMM_NULL);
    CHECK_EQ(ranks, argc > 1 ? atoi(argv[1]) : 1);

    acc_device_t type = device_type();
    int devices = acc_get_num_devices(type);
    acc_set_device_num(rank % devices, type);
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    for (int round = 0; round < 10; round++) {
#pragma acc data create(here, there)
        {
#pragma acc parallel loop present(here)
            for (int i = 0; i < N; i++)
                here[i] = 1000 * rank + i + round;
#pragma acc update self(here)
            MPI_Sendrecv(here, N, MPI_INT, right, round, there, N, MPI_INT, left, round, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
#pragma acc update device(there)
#pragma acc parallel loop present(here, there)
            for (int i = 0; i < N; i++)
                here[i] = there[i] + 1;
#pragma acc update self(here)
        }
        for (int i = 0; i < N; i++)
            CHECK_EQ(here[i], 1000 * left + i + round + 1);
    }
    CHECK_EQ(loaded("libaccord_mpi"), 0);
    CHECK_EQ(loaded("/libmpi.so") + loaded("/libmpich.so") > 1, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank=%d ranks=%d devices=%d\n", rank, ranks, devices);
    MPI_Finalize();
    return 0;
}
