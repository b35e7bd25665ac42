// Hands device addresses to MPI, each rank those of device local_rank % n, with any number of ranks: by messages, collective calls, types and files.
#include <mpi.h>
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define CHECK(name, cond) do { int ok_ = (cond), all_; MPI_Allreduce(&ok_, &all_, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD); if (!r) printf("%s %s\n", name, all_ ? "ok" : "WRONG"); fflush(stdout); } while (0)
int main(int argc, char **argv) {
    int r, np, prov; MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &prov);
    MPI_Comm_rank(MPI_COMM_WORLD, &r); MPI_Comm_size(MPI_COMM_WORLD, &np);
    MPI_Comm loc; int lr; MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, r, MPI_INFO_NULL, &loc); MPI_Comm_rank(loc, &lr);
    const char *only = argc > 1 ? argv[1] : "all";
    int nd = acc_get_num_devices(acc_get_device_type()); if (nd < 1) nd = 1;
    acc_set_device_num(lr % nd, acc_get_device_type());
    int n = 12000, ok; double *a = malloc(n * 8), *b = malloc(n * 8); int next = (r + 1) % np, prev = (r + np - 1) % np;
    for (int i = 0; i < n; i++) { a[i] = r * 1e6 + i; b[i] = -1; }
#define ON(x) (!strcmp(only, "all") || !strcmp(only, x))
    #pragma acc data copyin(a[0:n]) copyin(b[0:n])
    {
    if (ON("sendrecv")) {
        #pragma acc parallel loop present(a[0:n])
        for (int i = 0; i < n; i++) a[i] += 0.5;
        #pragma acc host_data use_device(a, b)
        MPI_Sendrecv(a, n, MPI_DOUBLE, next, 1, b, n, MPI_DOUBLE, prev, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        #pragma acc update self(b[0:n])
        ok = 1; for (int i = 0; i < n; i++) ok &= b[i] == prev * 1e6 + i + 0.5;
        CHECK("sendrecv", ok);
        #pragma acc parallel loop present(a[0:n])
        for (int i = 0; i < n; i++) a[i] -= 0.5;
    }
    if (ON("isend")) {
        MPI_Request q[4];
        #pragma acc parallel loop present(a[0:n]) async(1)
        for (int i = 0; i < n; i++) a[i] += 1;
        #pragma acc wait(1)
        #pragma acc host_data use_device(a, b)
        { MPI_Irecv(b, n / 2, MPI_DOUBLE, prev, 2, MPI_COMM_WORLD, &q[0]); MPI_Irecv(b + n / 2, n / 2, MPI_DOUBLE, next, 3, MPI_COMM_WORLD, &q[1]);
          MPI_Isend(a, n / 2, MPI_DOUBLE, next, 2, MPI_COMM_WORLD, &q[2]); MPI_Isend(a + n / 2, n / 2, MPI_DOUBLE, prev, 3, MPI_COMM_WORLD, &q[3]); }
        MPI_Waitall(4, q, MPI_STATUSES_IGNORE);
        double s = 0;
        #pragma acc parallel loop present(b[0:n]) reduction(+:s)
        for (int i = 0; i < n; i++) s += b[i] - i - 1 - (i < n / 2 ? prev : next) * 1e6;
        CHECK("isend", s == 0);
        #pragma acc parallel loop present(a[0:n])
        for (int i = 0; i < n; i++) a[i] -= 1;
    }
    if (ON("allreduce")) {
        double *d = acc_deviceptr(a), *e = acc_deviceptr(b);
        if (!d) { d = a; e = b; }
        MPI_Allreduce(d, e, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, e, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        #pragma acc update self(b[0:n])
        ok = 1; for (int i = 0; i < n; i++) ok &= b[i] == np * (np - 1) / 2 * 1e6 + (double)np * i;
        CHECK("allreduce", ok);
    }
    if (ON("alltoallv")) {
        int *c = malloc(np * 4), *o = malloc(np * 4); for (int i = 0; i < np; i++) { c[i] = n / np; o[i] = i * (n / np); }
        #pragma acc host_data use_device(a, b)
        MPI_Alltoallv(a, c, o, MPI_DOUBLE, b, c, o, MPI_DOUBLE, MPI_COMM_WORLD);
        #pragma acc update self(b[0:n])
        ok = 1; for (int p = 0; p < np; p++) for (int i = 0; i < n / np; i++) ok &= b[p * (n / np) + i] == p * 1e6 + r * (n / np) + i;
        CHECK("alltoallv", ok); free(c); free(o);
    }
    if (ON("type")) {
        MPI_Datatype v; MPI_Type_vector(n / 100, 1, 100, MPI_DOUBLE, &v); MPI_Type_commit(&v);
        #pragma acc host_data use_device(a, b)
        MPI_Sendrecv(a, 1, v, next, 4, b, 1, v, prev, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        #pragma acc update self(b[0:n])
        ok = 1; for (int i = 0; i < n; i += 100) ok &= b[i] == prev * 1e6 + i;
        CHECK("type", ok);
    }
    if (ON("bcast")) {
        #pragma acc host_data use_device(b)
        MPI_Bcast(b, n, MPI_DOUBLE, np - 1, MPI_COMM_WORLD);
        CHECK("bcast", 1);
    }
    if (ON("file")) {
        MPI_File f; char *name = "mpi_file.tmp"; MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
        #pragma acc host_data use_device(a, b)
        { MPI_File_write_at_all(f, (MPI_Offset)r * n * 8, a, n, MPI_DOUBLE, MPI_STATUS_IGNORE); MPI_File_sync(f); MPI_Barrier(MPI_COMM_WORLD);
          MPI_File_read_at_all(f, (MPI_Offset)next * n * 8, b, n, MPI_DOUBLE, MPI_STATUS_IGNORE); }
        #pragma acc update self(b[0:n])
        ok = 1; for (int i = 0; i < n; i++) ok &= b[i] == next * 1e6 + i;
        CHECK("file", ok); MPI_File_close(&f);
        if (!r) MPI_File_delete(name, MPI_INFO_NULL);
    }
    }
    MPI_Finalize();
    return 0;
}
