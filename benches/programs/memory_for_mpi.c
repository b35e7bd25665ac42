/* What the site's GPU-aware MPI makes of GPU memory, by how it is backed; without Accord.
   scripts/gpu-mpi runs it; by hand:
   mpicc -O2 memory_for_mpi.c -I/usr/local/cuda/include -lcuda -o mem
   mpirun -np 2 --mca pml ucx ./mem alloc pieces:64 rdma:64 pool host     one GPU a rank, or all ranks on one: half a ping-pong
   mpirun -np 1 ./mem hints                                              which addresses cuMemAddressReserve gives */
#include <cuda.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define CU(call)                                                                 \
    do {                                                                         \
        CUresult code_ = (call);                                                 \
        if (code_) {                                                             \
            printf("line %d: %s: error %d\n", __LINE__, #call, code_);           \
            fflush(stdout);                                                      \
            return 0;                                                            \
        }                                                                        \
    } while (0)

enum { BYTES_MIB = 1024 };
static CUdevice device;
/* Whether network adapters are to reach pieces. */
static int rdma;

static CUmemAllocationProp properties(void)
{
    CUmemAllocationProp p;
    memset(&p, 0, sizeof p);
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.location.id = device;
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    p.allocFlags.gpuDirectRDMACapable = rdma;
    return p;
}

/* Memory behind reserved addresses, in pieces; 0 if that fails. */
static int back(CUdeviceptr at, size_t len, size_t piece)
{
    CUmemAllocationProp p = properties();
    for (size_t done = 0; done < len; done += piece) {
        CUmemGenericAllocationHandle handle;
        CU(cuMemCreate(&handle, piece, &p, 0));
        CU(cuMemMap(at + done, piece, 0, handle, 0));
    }
    CUmemAccessDesc access = {p.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CU(cuMemSetAccess(at, len, &access, 1));
    return 1;
}

static CUdeviceptr take(const char *kind)
{
    CUdeviceptr at = 0;
    size_t len = BYTES_MIB * MIB;
    if (strcmp(kind, "host") == 0)
        CU(cuMemAllocHost((void **)&at, len));
    if (strcmp(kind, "alloc") == 0)
        CU(cuMemAlloc(&at, len));
    if (strcmp(kind, "pool") == 0) {
        CUmemoryPool pool;
        CUmemPoolProps p;
        memset(&p, 0, sizeof p);
        p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        p.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        p.location.id = device;
        CU(cuMemPoolCreate(&pool, &p));
        CU(cuMemAllocFromPoolAsync(&at, len, pool, 0));
        CU(cuCtxSynchronize());
    }
    rdma = strncmp(kind, "rdma:", 5) == 0;
    if (rdma || strncmp(kind, "pieces:", 7) == 0) {
        CU(cuMemAddressReserve(&at, len, 2 * MIB, 0, 0));
        if (!back(at, len, (size_t)atoi(strchr(kind, ':') + 1) * MIB))
            return 0;
    }
    return at;
}

/* Whether a message from rank 0 to rank 1 that crosses pieces comes whole. Where not: the first word that differs, in bytes. */
static int sent_whole(CUdeviceptr p, int rank, size_t from, size_t len)
{
    size_t words = len / sizeof(unsigned);
    unsigned *host = malloc(len);
    for (size_t i = 0; i < words; i++)
        host[i] = rank == 0 ? (unsigned)(i * 2654435761u) : 0;
    CU(cuMemcpyHtoD(p + from, host, len));
    if (rank == 0)
        MPI_Send((void *)(p + from), (int)len, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    else
        MPI_Recv((void *)(p + from), (int)len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CU(cuMemcpyDtoH(host, p + from, len));
    long long wrong = -1;
    for (size_t i = 0; i < words && wrong < 0; i++)
        if (host[i] != (unsigned)(i * 2654435761u))
            wrong = (long long)(i * sizeof(unsigned));
    free(host);
    MPI_Bcast(&wrong, 1, MPI_LONG_LONG, 1, MPI_COMM_WORLD);
    if (rank == 0 && wrong >= 0)
        printf(", WRONG at byte %lld of %zu MiB from %zu MiB on", wrong, len / MIB, from / MIB);
    return wrong < 0;
}

static int hints(void)
{
    size_t tib = (size_t)1 << 40, len = 564 * 1024 * MIB;
    CUdeviceptr at;
    CU(cuMemAddressReserve(&at, len, 2 * MIB, 0, 0));
    printf("without a hint: %#llx\n", at);
    for (CUdeviceptr hint = 17 * tib; hint < 110 * tib; hint += 4 * tib) {
        int value = 0;
        CU(cuMemAddressReserve(&at, len, 2 * MIB, hint, 0));
        if (!back(at, 64 * MIB, 64 * MIB))
            return 0;
        CU(cuMemsetD32(at + 60 * MIB, 1234, 1));
        CU(cuMemcpyDtoH(&value, at + 60 * MIB, sizeof value));
        printf("hint %#llx: %s, memory there %s\n", hint, at == hint ? "taken" : "not taken", value == 1234 ? "works" : "FAILS");
    }
    CU(cuMemAddressReserve(&at, 64 * 1024 * MIB, 2 * MIB, 17 * tib + len / 2, 0));
    printf("in the middle of another range: %#llx\n", at);
    return 1;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CUcontext context;
    int devices;
    CU(cuInit(0));
    CU(cuDeviceGetCount(&devices));
    CU(cuDeviceGet(&device, rank % devices));
    CU(cuDevicePrimaryCtxRetain(&context, device));
    CU(cuCtxSetCurrent(context));
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "hints") == 0) {
            hints();
            continue;
        }
        void *p = (void *)take(argv[k]);
        int has = p != NULL, all;
        MPI_Allreduce(&has, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        if (!all || ranks != 2)
            continue;
        if (rank == 0)
            printf("%-12s", argv[k]);
        static const int sizes[] = {8, 1 << 20, 16 << 20, 256 << 20, 1024 << 20};
        for (int s = 0; s < 5; s++) {
            int n = sizes[s], rounds = n > 4 << 20 ? 30 : 300;
            double start = 0;
            for (int i = -10; i < rounds; i++) {
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
            double seconds = (MPI_Wtime() - start) / rounds / 2;
            if (rank == 0 && n == 8)
                printf(" 8 B %.1f us", seconds * 1e6);
            else if (rank == 0)
                printf(", %d MiB %.0f GB/s", n >> 20, n / seconds / 1e9);
        }
        int whole = sent_whole((CUdeviceptr)p, rank, 0, BYTES_MIB * MIB) & sent_whole((CUdeviceptr)p, rank, 100 * MIB, 700 * MIB) &
                    sent_whole((CUdeviceptr)p, rank, 255 * MIB, 2 * MIB);
        if (rank == 0)
            printf("%s\n", whole ? ", right" : "");
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
