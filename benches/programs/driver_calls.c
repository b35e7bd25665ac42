/* Which calls of the CUDA driver a process makes, and when: preloaded ahead of libacc.so, it stands between `dlsym` and the code that
   looks the driver's functions up. At the end of the process it writes a line for each call to the file DRIVER_CALLS: when it began,
   in us since the process's start, how long it took, its name.
   gcc -O2 -shared -fPIC driver_calls.c -o driver_calls.so -ldl */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The first version that the C library for x86-64 had. */
#define VERSION "GLIBC_2" ".2.5"

enum { FUNCTIONS = 128, CALLS = 1 << 16 };

/* Everything that the driver takes is an integer or a pointer, and at most so many. */
typedef long call(long, long, long, long, long, long, long, long, long, long, long, long);

static struct {
    char name[48];
    call *function;
} known[FUNCTIONS];
static int functions;

static struct {
    double at, took;
    int function;
} calls[CALLS];
static int made;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static long timed(int f, long a, long b, long c, long d, long e, long g, long h, long i, long j, long k, long l, long m)
{
    double at = now_us();
    long code = known[f].function(a, b, c, d, e, g, h, i, j, k, l, m);
    int n = __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
    if (n < CALLS)
        calls[n].at = at, calls[n].took = now_us() - at, calls[n].function = f;
    return code;
}

/* A function of our own for each that was looked up. */
#define ONE(n)                                                                                                        \
    static long call_##n(long a, long b, long c, long d, long e, long g, long h, long i, long j, long k, long l, long m) \
    {                                                                                                                 \
        return timed(0x##n, a, b, c, d, e, g, h, i, j, k, l, m);                                                      \
    }
#define ROW(X, r) X(r##0) X(r##1) X(r##2) X(r##3) X(r##4) X(r##5) X(r##6) X(r##7) X(r##8) X(r##9) X(r##a) X(r##b) X(r##c) X(r##d) X(r##e) X(r##f)
#define ALL(X) ROW(X, 0) ROW(X, 1) ROW(X, 2) ROW(X, 3) ROW(X, 4) ROW(X, 5) ROW(X, 6) ROW(X, 7)
ALL(ONE)
#define NAME(n) call_##n,
static call *const between[FUNCTIONS] = { ALL(NAME) };

void *dlsym(void *library, const char *name)
{
    static void *(*real)(void *, const char *);
    if (!real)
        *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", VERSION);
    /* What is looked up for objects after the caller would come after this library. */
    void *found = real(library, name);
    if (!found || strncmp(name, "cu", 2) || strlen(name) >= sizeof known[0].name)
        return found;
    int n = __atomic_fetch_add(&functions, 1, __ATOMIC_RELAXED);
    if (n >= FUNCTIONS)
        return found;
    strcpy(known[n].name, name);
    *(void **)&known[n].function = found;
    return (void *)between[n];
}

/* When the kernel started the process, in us since the machine's start: to 10 ms. */
static double born(void)
{
    FILE *file = fopen("/proc/self/stat", "r");
    unsigned long long ticks = 0;
    if (file && fscanf(file, "%*d (%*[^)]) %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &ticks) != 1)
        ticks = 0;
    if (file)
        fclose(file);
    return ticks * 1e6 / sysconf(_SC_CLK_TCK);
}

static double loaded;

__attribute__((constructor)) static void begin(void)
{
    loaded = now_us();
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("DRIVER_CALLS");
    FILE *to = path ? fopen(path, "w") : NULL;
    if (!to)
        return;
    fprintf(to, "%.0f 0 (loaded, after the start)\n", loaded - born());
    for (int i = 0; i < made && i < CALLS; i++)
        fprintf(to, "%.0f %.0f %s\n", calls[i].at - loaded, calls[i].took, known[calls[i].function].name);
    fprintf(to, "%.0f 0 (end)\n", now_us() - loaded);
    fclose(to);
}
