/* What pageable copies cost by hand: staging by threads in several ways, and page-locking.
   gcc -O2 -pthread copies_by_hand.c -ldl; ./copies_by_hand [MiB] [in|out|lock|all] */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <emmintrin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef void *handle;
typedef unsigned long long dptr;
static int (*cuInit)(unsigned), (*cuDeviceGet)(int *, int), (*cuDevicePrimaryCtxRetain)(handle *, int),
    (*cuCtxPushCurrent_v2)(handle), (*cuStreamCreate)(handle *, unsigned), (*cuStreamSynchronize)(handle),
    (*cuStreamQuery)(handle), (*cuMemAlloc_v2)(dptr *, size_t), (*cuMemHostAlloc)(void **, size_t, unsigned),
    (*cuMemFreeHost)(void *), (*cuMemcpyHtoDAsync_v2)(dptr, const void *, size_t, handle),
    (*cuMemcpyDtoHAsync_v2)(void *, dptr, size_t, handle), (*cuMemcpyDtoDAsync_v2)(dptr, dptr, size_t, handle),
    (*cuEventCreate)(handle *, unsigned), (*cuEventRecord)(handle, handle), (*cuEventQuery)(handle),
    (*cuEventSynchronize)(handle), (*cuMemHostRegister_v2)(void *, size_t, unsigned), (*cuMemHostUnregister)(void *),
    (*cuPointerGetAttribute)(void *, int, dptr);

#define CU(call, ...)                                                                            \
    do {                                                                                         \
        int code_ = call(__VA_ARGS__);                                                           \
        if (code_) { printf("%d: %s: error %d\n", __LINE__, #call, code_); fflush(stdout); exit(1); } \
    } while (0)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

/* ---- ways to copy ---- */
typedef void (*mover)(char *, const char *, size_t);
static void whole(char *to, const char *from, size_t n) { memcpy(to, from, n); }
static void chunks(char *to, const char *from, size_t n)
{
    for (size_t at = 0; at < n; at += 32 << 10)
        memcpy(to + at, from + at, n - at < (32 << 10) ? n - at : (32 << 10));
}
static void nt(char *to, const char *from, size_t n)
{
    for (size_t i = 0; i < n; i += 64) {
        __m128i a = _mm_loadu_si128((void *)(from + i)), b = _mm_loadu_si128((void *)(from + i + 16));
        __m128i c = _mm_loadu_si128((void *)(from + i + 32)), d = _mm_loadu_si128((void *)(from + i + 48));
        _mm_stream_si128((void *)(to + i), a), _mm_stream_si128((void *)(to + i + 16), b);
        _mm_stream_si128((void *)(to + i + 32), c), _mm_stream_si128((void *)(to + i + 48), d);
    }
    _mm_sfence();
}
static struct { const char *name; mover move; } KINDS[] = {{"memcpy", whole}, {"memcpy32K", chunks}, {"nt", nt}};
enum { MEMCPY, CHUNKS, NT };

/* ---- a pool of threads ---- */
enum { T_MAX = 256, SLOTS_MAX = 1024 };
static pthread_barrier_t start_line, end_line;
static void (*pool_work)(int);
static handle context;
static _Atomic int pool_wanted;
static void *pool_thread(void *arg)
{
    int me = (int)(intptr_t)arg;
    CU(cuCtxPushCurrent_v2, context);
    for (;;) {
        pthread_barrier_wait(&start_line);
        if (me < pool_wanted) pool_work(me);
        pthread_barrier_wait(&end_line);
    }
}
static void pool_start(int n)
{
    pthread_barrier_init(&start_line, NULL, n);
    pthread_barrier_init(&end_line, NULL, n);
    for (int i = 1; i < n; i++) {
        pthread_t t;
        pthread_create(&t, NULL, pool_thread, (void *)(intptr_t)i);
    }
}
static void pool_run(int threads, void (*work)(int))
{
    pool_wanted = threads; pool_work = work;
    pthread_barrier_wait(&start_line);
    work(0);
    pthread_barrier_wait(&end_line);
}

static char *host, *arena;
static size_t bytes, arena_bytes;
static dptr memory;
static handle stream, events[SLOTS_MAX];

/* ---- configuration of one run ---- */
static struct { int threads, kind, slots; size_t piece, part; } c;
static _Atomic size_t next_piece;
static _Atomic int issued[1 << 16], parts_left[1 << 16];
static _Atomic size_t done_upto;
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;

/* In, a thread a piece, its own slots in turn. */
static void in_piece(int me)
{
    int used[SLOTS_MAX] = {0}, at = 0;
    mover move = KINDS[c.kind].move;
    for (;;) {
        size_t offset = atomic_fetch_add(&next_piece, 1) * c.piece;
        if (offset >= bytes) return;
        int slot = me * c.slots + at;
        if (used[at]) while (cuEventQuery(events[slot]) != 0) _mm_pause();
        move(arena + (size_t)slot * c.piece, host + offset, c.piece);
        CU(cuMemcpyHtoDAsync_v2, memory + offset, arena + (size_t)slot * c.piece, c.piece, stream);
        CU(cuEventRecord, events[slot], stream);
        used[at] = 1;
        at = (at + 1) % c.slots;
    }
}

/* In, all threads share each slot: the thread that ends its last part starts the transfer. */
static void ask(size_t number)
{
    while (atomic_load(&done_upto) <= number) {
        if (pthread_mutex_trylock(&asking) == 0) {
            size_t done = done_upto;
            if (done <= number && issued[done] && cuEventQuery(events[done % c.slots]) == 0) done_upto = done + 1;
            pthread_mutex_unlock(&asking);
        } else
            _mm_pause();
    }
}
static void in_split(int me)
{
    (void)me;
    size_t per = c.piece / c.part, all = bytes / c.part;
    mover move = KINDS[c.kind].move;
    for (;;) {
        size_t part = atomic_fetch_add(&next_piece, 1);
        if (part >= all) return;
        size_t number = part / per, slot = number % c.slots, inside = part % per * c.part;
        if (number >= (size_t)c.slots) ask(number - c.slots);
        move(arena + slot * c.piece + inside, host + part * c.part, c.part);
        if (atomic_fetch_sub(&parts_left[number], 1) == 1) {
            CU(cuMemcpyHtoDAsync_v2, memory + number * c.piece, arena + slot * c.piece, c.piece, stream);
            CU(cuEventRecord, events[slot], stream);
            issued[number] = 1;
        }
    }
}

/* Out: the thread that frees a slot starts the next transfer into it; all threads share each slot. */
static void out_issue(size_t number)
{
    size_t slot = number % c.slots;
    CU(cuMemcpyDtoHAsync_v2, arena + slot * c.piece, memory + number * c.piece, c.piece, stream);
    CU(cuEventRecord, events[slot], stream);
    issued[number] = 1;
}
static void out_split(int me)
{
    size_t per = c.piece / c.part, all = bytes / c.part, count = bytes / c.piece;
    mover move = KINDS[c.kind].move;
    if (me == 0)
        for (size_t n = 0; n < (size_t)c.slots && n < count; n++) out_issue(n);
    for (;;) {
        size_t part = atomic_fetch_add(&next_piece, 1);
        if (part >= all) return;
        size_t number = part / per, slot = number % c.slots, inside = part % per * c.part;
        ask(number);
        move(host + part * c.part, arena + slot * c.piece + inside, c.part);
        if (atomic_fetch_sub(&parts_left[number], 1) == 1 && number + c.slots < count) out_issue(number + c.slots);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(double *)a, y = *(double *)b;
    return x < y ? -1 : x > y;
}
static double rate_of(void (*work)(int), int split, int device)
{
    double rates[3];
    for (int r = -1; r < 3; r++) {
        next_piece = 0; done_upto = 0;
        if (split)
            for (size_t n = 0; n < bytes / c.piece; n++) { issued[n] = 0; parts_left[n] = c.piece / c.part; }
        double t0 = now();
        pool_run(c.threads, work);
        if (device) CU(cuStreamSynchronize, stream);
        double t1 = now();
        if (r >= 0) rates[r] = bytes / (t1 - t0) / 1e6;
    }
    qsort(rates, 3, sizeof *rates, by_value);
    return rates[1];
}

static void check_in(const char *what)
{
    /* The device's copy has to be what the host has: back into the arena's end by pinned memory. */
    char *back = arena;
    for (size_t at = 0; at < bytes; at += 16 << 20) {
        size_t n = bytes - at < (16 << 20) ? bytes - at : (16 << 20);
        CU(cuMemcpyDtoHAsync_v2, back, memory + at, n, stream);
        CU(cuStreamSynchronize, stream);
        if (memcmp(back, host + at, n)) { printf("WRONG bytes after %s\n", what); exit(1); }
    }
}
static void scramble(void)
{
    static unsigned seed = 1;
    for (size_t i = 0; i < bytes; i += 512) *(unsigned *)(host + i) = seed++ * 2654435761u;
}

static int threads_list[16], nthreads;

static void section_in(void)
{
    printf("\n## in, a thread a piece with its own slots, GB/s\n%-10s %6s %5s", "kind", "piece", "slots");
    for (int t = 0; t < nthreads; t++) printf(" %6dT", threads_list[t]);
    printf("\n");
    size_t pieces[] = {256 << 10, 512 << 10, 1 << 20, 2 << 20};
    int slots[] = {2, 3, 6}, kinds[] = {MEMCPY, CHUNKS, NT};
    scramble();
    for (int k = 0; k < 3; k++)
        for (int p = 0; p < 4; p++)
            for (int s = 0; s < 3; s++) {
                if (kinds[k] == NT && s == 2) continue;
                printf("%-10s %5zuK %5d", KINDS[kinds[k]].name, pieces[p] >> 10, slots[s]);
                for (int t = 0; t < nthreads; t++) {
                    c.threads = threads_list[t], c.kind = kinds[k], c.slots = slots[s], c.piece = c.part = pieces[p];
                    if ((size_t)c.threads * c.slots * c.piece > arena_bytes || c.threads * c.slots > SLOTS_MAX) { printf("       -"); continue; }
                    printf(" %7.1f", rate_of(in_piece, 0, 1));
                }
                printf("\n");
                fflush(stdout);
            }
    check_in("in, pieces");
    printf("\n## in, threads share each slot, GB/s\n%-10s %6s %6s %5s", "kind", "slot", "part", "slots");
    for (int t = 0; t < nthreads; t++) printf(" %6dT", threads_list[t]);
    printf("\n");
    size_t whole_slots[] = {1 << 20, 2 << 20, 4 << 20}, parts[] = {64 << 10, 128 << 10, 256 << 10};
    int rings[] = {4, 8, 16};
    scramble();
    for (int k = 0; k < 3; k++)
        for (int w = 0; w < 3; w++)
            for (int q = 0; q < 3; q++)
                for (int s = 0; s < 3; s++) {
                    if (kinds[k] != CHUNKS && (q != 1 || s != 1)) continue;
                    printf("%-10s %5zuK %5zuK %5d", KINDS[kinds[k]].name, whole_slots[w] >> 10, parts[q] >> 10, rings[s]);
                    for (int t = 0; t < nthreads; t++) {
                        c.threads = threads_list[t], c.kind = kinds[k], c.slots = rings[s], c.piece = whole_slots[w], c.part = parts[q];
                        printf(" %7.1f", rate_of(in_split, 1, 1));
                    }
                    printf("\n");
                    fflush(stdout);
                }
    check_in("in, shared");
}

static void section_out(void)
{
    printf("\n## out, threads share each slot, GB/s\n%-10s %6s %6s %5s", "kind", "slot", "part", "slots");
    for (int t = 0; t < nthreads; t++) printf(" %6dT", threads_list[t]);
    printf("\n");
    size_t whole_slots[] = {1 << 20, 2 << 20, 4 << 20, 8 << 20}, parts[] = {128 << 10, 256 << 10, 1 << 20};
    int rings[] = {4, 8, 16, 32}, kinds[] = {NT, CHUNKS};
    for (int k = 0; k < 2; k++)
        for (int w = 0; w < 4; w++)
            for (int q = 0; q < 3; q++)
                for (int s = 0; s < 4; s++) {
                    if (whole_slots[w] * rings[s] > arena_bytes) continue;
                    if (kinds[k] != NT && (q != 1 || s != 1)) continue;
                    printf("%-10s %5zuK %5zuK %5d", KINDS[kinds[k]].name, whole_slots[w] >> 10, parts[q] >> 10, rings[s]);
                    for (int t = 0; t < nthreads; t++) {
                        c.threads = threads_list[t], c.kind = kinds[k], c.slots = rings[s], c.piece = whole_slots[w], c.part = parts[q];
                        printf(" %7.1f", rate_of(out_split, 1, 1));
                    }
                    printf("\n");
                    fflush(stdout);
                }
    check_in("out");
}

/* ---- page-locking ---- */
static _Atomic int stop_latency;
static double latency_max, latency_sum;
static long latency_count;
static void *latency_thread(void *arg)
{
    (void)arg;
    handle own;
    char *small = malloc(64);
    CU(cuCtxPushCurrent_v2, context);
    CU(cuStreamCreate, &own, 1);
    latency_max = latency_sum = latency_count = 0;
    while (!stop_latency) {
        double t0 = now();
        CU(cuMemcpyHtoDAsync_v2, memory, small, 8, own);
        CU(cuStreamSynchronize, own);
        double t = now() - t0;
        if (t > latency_max) latency_max = t;
        latency_sum += t, latency_count++;
    }
    return NULL;
}
static int kind_of(void *at)
{
    unsigned kind = 0;
    int code = cuPointerGetAttribute(&kind, 2, (dptr)(uintptr_t)at);
    return code ? -code : (int)kind;
}
static void lock_times(const char *what, int advice)
{
    char *a = mmap(NULL, bytes + (4 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *at = (char *)(((uintptr_t)a + (2 << 20) - 1) & ~(uintptr_t)((2 << 20) - 1));
    madvise(a, bytes + (4 << 20), advice);
    memset(at, 3, bytes);
    for (int r = 0; r < 2; r++) {
        double t0 = now();
        CU(cuMemHostRegister_v2, at, bytes, 1);
        double t1 = now();
        CU(cuMemcpyHtoDAsync_v2, memory, at, bytes, stream);
        CU(cuStreamSynchronize, stream);
        double t2 = now();
        CU(cuMemcpyHtoDAsync_v2, memory, at, bytes, stream);
        CU(cuStreamSynchronize, stream);
        double t3 = now();
        CU(cuMemcpyDtoHAsync_v2, at, memory, bytes, stream);
        CU(cuStreamSynchronize, stream);
        double t4 = now();
        CU(cuMemHostUnregister, at);
        double t5 = now();
        printf("%s: register %.1f ms, unregister %.1f ms; first copy in %.1f, next %.1f, out %.1f GB/s\n", what, t1 - t0,
               t5 - t4, bytes / (t2 - t1) / 1e6, bytes / (t3 - t2) / 1e6, bytes / (t4 - t3) / 1e6);
    }
    for (int pieces = 0; pieces < 2; pieces++) {
        size_t step = pieces ? 16 << 20 : bytes;
        pthread_t t;
        stop_latency = 0;
        pthread_create(&t, NULL, latency_thread, NULL);
        usleep(50000);
        double idle_max = latency_max;
        latency_max = 0;
        double t0 = now();
        for (size_t o = 0; o < bytes; o += step) CU(cuMemHostRegister_v2, at + o, bytes - o < step ? bytes - o : step, 1);
        double t1 = now(), during = latency_max;
        latency_max = 0;
        for (size_t o = 0; o < bytes; o += step) CU(cuMemHostUnregister, at + o);
        double t2 = now(), during_un = latency_max;
        stop_latency = 1;
        pthread_join(t, NULL);
        printf("%s, %s: register %.1f ms, unregister %.1f ms; meanwhile another thread's 8 B copy and wait: mean %.3f ms, "
               "longest before %.3f, during register %.3f, during unregister %.3f ms\n",
               what, pieces ? "by 16 MiB" : "at once", t1 - t0, t2 - t1, latency_sum / latency_count, idle_max, during, during_un);
    }
    munmap(a, bytes + (4 << 20));
}
static void section_lock(void)
{
    printf("\n## page-locking\n");
    if (!cuMemHostRegister_v2 || !cuMemHostUnregister) { printf("not in this driver\n"); return; }
    lock_times("4 KiB pages", MADV_NOHUGEPAGE);
    lock_times("2 MiB pages", MADV_HUGEPAGE);
    char *a = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(a, 5, 64 << 20);
    size_t M = 1 << 20;
    printf("register [1 MiB + 100, + 1 MiB): %d\n", cuMemHostRegister_v2(a + M + 100, M, 1));
    printf("  kind (1 = host, negative = error) of the byte before %d, first %d, last %d, after %d; page before %d, page after %d\n", kind_of(a + M + 99),
           kind_of(a + M + 100), kind_of(a + 2 * M + 99), kind_of(a + 2 * M + 100), kind_of(a + M - 1), kind_of(a + 2 * M + 4096));
    printf("  copy of 256 KiB from inside across its end: in %d", cuMemcpyHtoDAsync_v2(memory, a + 2 * M - 128 * 1024, 256 << 10, stream));
    printf(", out %d\n", cuMemcpyDtoHAsync_v2(a + 2 * M - 128 * 1024, memory, 256 << 10, stream));
    printf("  copy of 256 KiB from before across its start: in %d", cuMemcpyHtoDAsync_v2(memory, a + M - 128 * 1024, 256 << 10, stream));
    printf(", out %d\n", cuMemcpyDtoHAsync_v2(a + M - 128 * 1024, memory, 256 << 10, stream));
    printf("  copy of 32 KiB across its end: in %d\n", cuMemcpyHtoDAsync_v2(memory, a + 2 * M - 16 * 1024, 32 << 10, stream));
    printf("  register the neighbour from the next byte (same page): %d\n", cuMemHostRegister_v2(a + 2 * M + 100, M, 1));
    printf("  register one that overlaps by half: %d\n", cuMemHostRegister_v2(a + M + M / 2, M, 1));
    printf("  copy across both: %d\n", cuMemcpyHtoDAsync_v2(memory, a + 2 * M - 128 * 1024, 256 << 10, stream));
    printf("  synchronize: %d\n", cuStreamSynchronize(stream));
    printf("  unregister: %d %d\n", cuMemHostUnregister(a + M + 100), cuMemHostUnregister(a + 2 * M + 100));
    printf("page-aligned neighbours: %d", cuMemHostRegister_v2(a + 4 * M, M, 1));
    printf(" %d", cuMemHostRegister_v2(a + 5 * M, M, 1));
    printf("; copy across both: %d\n", cuMemcpyHtoDAsync_v2(memory, a + 5 * M - 128 * 1024, 256 << 10, stream));
    CU(cuStreamSynchronize, stream);
    /* Is the memory read before the call returns, with work ahead in the stream? */
    for (size_t n = 8; n <= M; n *= 8) {
        size_t len = n < M ? n : M;
        memset(a + 4 * M, 7, len);
        for (int i = 0; i < 64; i++) CU(cuMemcpyDtoDAsync_v2, memory + bytes / 2, memory, bytes / 2, stream);
        CU(cuMemcpyHtoDAsync_v2, memory, a + 4 * M, len, stream);
        memset(a + 4 * M, 9, len);
        CU(cuStreamSynchronize, stream);
        char *back = arena;
        CU(cuMemcpyDtoHAsync_v2, back, memory, len, stream);
        CU(cuStreamSynchronize, stream);
        printf("copy in of %zu bytes of locked memory was read %s\n", len, back[len - 1] == 7 ? "before the call returned" : "in its turn");
    }
    CU(cuMemHostUnregister, a + 4 * M);
    CU(cuMemHostUnregister, a + 5 * M);
    /* Memory that can only be read. */
    char *r = mmap(NULL, M, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(r, 1, M);
    mprotect(r, M, PROT_READ);
    printf("read-only memory: register %d", cuMemHostRegister_v2(r, M, 1));
    printf(", with READ_ONLY %d\n", cuMemHostRegister_v2(r, M, 1 | 8));
    char name[] = "/tmp/copiesXXXXXX";
    int file = mkstemp(name);
    if (ftruncate(file, M)) {}
    char *f = mmap(NULL, M, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memset(f, 1, M);
    printf("shared file mapping: register %d\n", cuMemHostRegister_v2(f, M, 1));
    unlink(name);
    char *never = mmap(NULL, M, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("never touched: register %d\n", cuMemHostRegister_v2(never, M, 1));
    void *own;
    CU(cuMemHostAlloc, &own, M, 0);
    printf("pinned by cuMemHostAlloc: register %d\n", cuMemHostRegister_v2(own, M, 1));
    /* A program that frees what is locked and gets the address again. */
    char *s = mmap(NULL, M, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(s, 1, M);
    CU(cuMemHostRegister_v2, s, M, 1);
    munmap(s, M);
    char *again = mmap(s, M, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    memset(again, 2, M);
    CU(cuMemcpyHtoDAsync_v2, memory, again, M, stream);
    CU(cuStreamSynchronize, stream);
    CU(cuMemcpyDtoHAsync_v2, arena, memory, M, stream);
    CU(cuStreamSynchronize, stream);
    printf("unmapped while locked and mapped again: the device reads the %s bytes\n", arena[0] == 2 ? "new" : "OLD");
}


/* Last of all: it may cost the context. */
static void section_dangerous(void)
{
    size_t M = 1 << 20;
    if (!cuMemHostRegister_v2) return;
    char *a = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(a, 5, 64 << 20);
    CU(cuMemHostRegister_v2, a + 4 * M, M, 1);
    /* Unregister while a copy is under way. */
    for (int i = 0; i < 256; i++) CU(cuMemcpyDtoDAsync_v2, memory + bytes / 2, memory, bytes / 2, stream);
    CU(cuMemcpyHtoDAsync_v2, memory, a + 4 * M, M, stream);
    double t0 = now();
    int code = cuMemHostUnregister(a + 4 * M);
    double t1 = now();
    int query = cuStreamQuery(stream);
    double t2 = now();
    int end = cuStreamSynchronize(stream);
    printf("unregister with a copy under way: %d after %.2f ms; stream then %d (600 = not done), its end %d after %.2f ms more\n", code,
           t1 - t0, query, end, now() - t2);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[2] : "all";
    bytes = (argc > 1 ? strtoull(argv[1], NULL, 0) : 1024) << 20;
    arena_bytes = (size_t)512 << 20;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) { fprintf(stderr, "skipped: there is no NVIDIA driver\n"); return 77; }
#define SYM(name) *(void **)&name = dlsym(library, #name)
    SYM(cuInit); SYM(cuDeviceGet); SYM(cuDevicePrimaryCtxRetain); SYM(cuCtxPushCurrent_v2); SYM(cuStreamCreate);
    SYM(cuStreamSynchronize); SYM(cuStreamQuery); SYM(cuMemAlloc_v2); SYM(cuMemHostAlloc); SYM(cuMemFreeHost);
    SYM(cuMemcpyHtoDAsync_v2); SYM(cuMemcpyDtoHAsync_v2); SYM(cuMemcpyDtoDAsync_v2); SYM(cuEventCreate); SYM(cuEventRecord);
    SYM(cuEventQuery); SYM(cuEventSynchronize); SYM(cuMemHostRegister_v2); SYM(cuMemHostUnregister); SYM(cuPointerGetAttribute);
    int device, cpus = sysconf(_SC_NPROCESSORS_ONLN);
    CU(cuInit, 0);
    CU(cuDeviceGet, &device, 0);
    CU(cuDevicePrimaryCtxRetain, &context, device);
    CU(cuCtxPushCurrent_v2, context);
    CU(cuStreamCreate, &stream, 1);
    printf("## machine: %d processors\n", cpus);
    int wanted[] = {4, 6, 8, 10, 12, 16, 20, 24, 32, 48};
    for (int i = 0; i < 10; i++)
        if (wanted[i] <= cpus || i == 0) threads_list[nthreads++] = wanted[i];
    while (nthreads > 6) {
        /* Few columns on large machines. */
        for (int i = 0; i + 1 < nthreads; i++) threads_list[i] = threads_list[i + 1];
        nthreads--;
    }
    host = aligned_alloc(4096, bytes);
    memset(host, 1, bytes);
    CU(cuMemAlloc_v2, &memory, bytes);
    CU(cuMemHostAlloc, (void **)&arena, arena_bytes + 4096, 1);
    arena = (char *)(((uintptr_t)arena + 4095) & ~(uintptr_t)4095);
    memset(arena, 2, arena_bytes);
    for (int i = 0; i < SLOTS_MAX; i++) CU(cuEventCreate, &events[i], 2);
    pool_start(threads_list[nthreads - 1]);
    for (int out = 0; out < 2; out++) {
        double rates[5];
        for (int r = -1; r < 5; r++) {
            double t0 = now();
            for (size_t at = 0; at < bytes; at += arena_bytes) {
                size_t n = bytes - at < arena_bytes ? bytes - at : arena_bytes;
                if (out) CU(cuMemcpyDtoHAsync_v2, arena, memory + at, n, stream);
                else CU(cuMemcpyHtoDAsync_v2, memory + at, arena, n, stream);
            }
            CU(cuStreamSynchronize, stream);
            if (r >= 0) rates[r] = bytes / (now() - t0) / 1e6;
        }
        qsort(rates, 5, sizeof *rates, by_value);
        printf("pinned, %s: %.1f GB/s\n", out ? "out" : "in", rates[2]);
    }
    double t0 = now();
    if (!strcmp(what, "all") || !strcmp(what, "lock")) section_lock();
    if (!strcmp(what, "all") || !strcmp(what, "in")) section_in();
    if (!strcmp(what, "all") || !strcmp(what, "out")) section_out();
    if (!strcmp(what, "all") || !strcmp(what, "lock")) section_dangerous();
    printf("\ndone in %.0f s\n", (now() - t0) / 1e3);
    return 0;
}
