/* What one rank can take from several at once: 64 MiB from each of them, in messages of 128 KiB and of 1 MiB, all of which it has posted.
   mpicc -O2 mpi_incast.c -o mpi_incast
   mpirun -np 4 --mca pml ucx mpi_incast */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 9, EACH = 64 << 20 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void take(int rank, int senders, int len)
{
    int count = EACH / len;
    char *bytes = malloc((size_t)EACH * senders);
    MPI_Request *open = malloc(sizeof *open * count * senders);
    double times[ROUNDS];
    memset(bytes, 1, (size_t)EACH * senders);
    for (int round = 0; round < ROUNDS; round++) {
        int n = 0;
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        for (int i = 0; i < count; i++) {
            for (int from = 1; rank == 0 && from <= senders; from++) {
                char *to = bytes + (size_t)EACH * (from - 1) + (size_t)i * len;
                MPI_Irecv(to, len, MPI_CHAR, from, 7, MPI_COMM_WORLD, &open[n++]);
            }
            if (rank > 0 && rank <= senders)
                MPI_Isend(bytes + (size_t)i * len, len, MPI_CHAR, 0, 7, MPI_COMM_WORLD, &open[n++]);
        }
        MPI_Waitall(n, open, MPI_STATUSES_IGNORE);
        times[round] = MPI_Wtime() - start;
    }
    qsort(times, ROUNDS, sizeof *times, by_value);
    if (rank == 0)
        printf("%d ranks send messages of %d KiB to one: %.2f GB/s in the median, %.2f at best\n", senders, len >> 10,
               senders * (double)EACH / times[ROUNDS / 2] / 1e9, senders * (double)EACH / times[0] / 1e9);
    free(bytes);
    free(open);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int senders = 1; senders < ranks; senders++) {
        take(rank, senders, 128 << 10);
        take(rank, senders, 1 << 20);
    }
    MPI_Finalize();
    return 0;
}
