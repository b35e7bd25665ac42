// Writes memory of another node's device to an MPI file, which no process here can.
#include <mpi.h>
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    int n = 100, *a = malloc(n * sizeof *a);
    char name[4096];
    MPI_File file;
    MPI_Init(&argc, &argv);
    snprintf(name, sizeof name, "%s/file_of_device.out", getenv("TMPDIR"));
    for (int i = 0; i < n; i++) a[i] = i;
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    #pragma acc data copyin(a[0:n])
    {
        #pragma acc host_data use_device(a)
        {
            MPI_Request request;
            if (!strcmp(argv[1], "iwrite")) {
                MPI_File_iwrite_at(file, 0, a, n, MPI_INT, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            } else if (!strcmp(argv[1], "all"))
                MPI_File_write_at_all(file, 0, a, n, MPI_INT, MPI_STATUS_IGNORE);
            else
                MPI_File_write_at(file, 0, a, n, MPI_INT, MPI_STATUS_IGNORE);
        }
    }
    MPI_File_close(&file);
    puts("the file is written");
    MPI_Finalize();
    return 0;
}
