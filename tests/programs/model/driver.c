// Does what a file says: one operation a line, a letter and numbers. The model test (tests/model) writes the file, and knows what
// every check has to find. All elements of a block of an array are equal.
// BUILD plugin=delays.c
// Arguments: the file, the number of the first of two devices, a file that is told which sequence is under way.
#include "check.h"
#include <fcntl.h>
#include <unistd.h>

/* GCC's header lacks it. */
extern void acc_memcpy_device_async(void *dst, void *src, size_t bytes, int queue) __attribute__((weak));

enum { SHAPES = 6, ARRAYS = 2 * SHAPES, BLOCKS = 8, SCALARS = 4 };

/* Elements of a block. */
static const int sizes[SHAPES] = {1, 16, 100, 600, 3000, 12000};

static int *arrays[ARRAYS];
static int scalars[SCALARS * 64];
static struct holder {
    int *p;
    int pad[6];
} *holders[SHAPES];

static char *text;
static int first, lines, progress = -1;
static long sequence;

static int number(void)
{
    return (int)strtol(text, &text, 10);
}

static void on(int device)
{
    static int current = -1;
    if (current != device)
        acc_set_device_num(first + device, acc_get_device_type());
    current = device;
}

static void mismatch(const char *what, int which, int at, int got, int want)
{
    printf("MISMATCH in sequence %ld, line %d: %s%d[%d] is %d, expected %d\n", sequence, lines, what, which, at, got,
           want);
    fflush(stdout);
    exit(1);
}

static void new_sequence(void)
{
    char told[32];
    sequence = number();
    for (int i = 0; i < ARRAYS; i++)
        memset(arrays[i], 0, BLOCKS * sizes[i / 2] * sizeof(int));
    memset(scalars, 0, sizeof scalars);
    if (progress >= 0 && pwrite(progress, told, snprintf(told, sizeof told, "%-20ld\n", sequence), 0) < 0)
        exit(2);
}

static void interpret(void);

static void enter(int in, int routine, int q, int *a, int lo, int n)
{
    if (routine && in)
        acc_copyin_async(a + lo, n * sizeof *a, q);
    else if (routine)
        acc_create_async(a + lo, n * sizeof *a, q);
    else if (in) {
#pragma acc enter data copyin(a[lo:n]) async(q)
    } else {
#pragma acc enter data create(a[lo:n]) async(q)
    }
}

static void leave(int out, int finalize, int routine, int q, int *a, int lo, int n)
{
    size_t bytes = n * sizeof *a;
    if (routine && out)
        (finalize ? acc_copyout_finalize_async : acc_copyout_async)(a + lo, bytes, q);
    else if (routine)
        (finalize ? acc_delete_finalize_async : acc_delete_async)(a + lo, bytes, q);
    else if (out && finalize) {
#pragma acc exit data copyout(a[lo:n]) finalize async(q)
    } else if (out) {
#pragma acc exit data copyout(a[lo:n]) async(q)
    } else if (finalize) {
#pragma acc exit data delete(a[lo:n]) finalize async(q)
    } else {
#pragma acc exit data delete(a[lo:n]) async(q)
    }
}

static void update(int out, int routine, int q, int *a, int lo, int n)
{
    if (routine)
        (out ? acc_update_self_async : acc_update_device_async)(a + lo, n * sizeof *a, q);
    else if (out) {
#pragma acc update self(a[lo:n]) async(q)
    } else {
#pragma acc update device(a[lo:n]) async(q)
    }
}

static void region(int kind, int *a, int lo, int n)
{
    if (kind == 0) {
#pragma acc data copy(a[lo:n])
        interpret();
    } else if (kind == 1) {
#pragma acc data copyin(a[lo:n])
        interpret();
    } else if (kind == 2) {
#pragma acc data copyout(a[lo:n])
        interpret();
    } else {
#pragma acc data create(a[lo:n])
        interpret();
    }
}

static void fill(int q, int *a, int lo, int n, int c)
{
#pragma acc parallel loop present(a[lo:n]) async(q)
    for (int i = lo; i < lo + n; i++)
        a[i] = c;
}

static void change(int q, int *a, int lo, int n, int m, int c)
{
#pragma acc parallel loop present(a[lo:n]) async(q)
    for (int i = lo; i < lo + n; i++)
        a[i] = a[i] * m + c;
}

static void add(int q, int *b, int *a, int lo, int n)
{
#pragma acc parallel loop present(a[lo:n], b[lo:n]) async(q)
    for (int i = lo; i < lo + n; i++)
        b[i] = b[i] * 3 + a[i];
}

static void copied(int q, int *a, int lo, int n, int m, int c)
{
#pragma acc parallel loop copy(a[lo:n]) async(q)
    for (int i = lo; i < lo + n; i++)
        a[i] = a[i] * m + c;
}

static void copied_in(int q, int *b, int *a, int lo, int n)
{
#pragma acc parallel loop copyin(a[lo:n]) present(b[lo:n]) async(q)
    for (int i = lo; i < lo + n; i++)
        b[i] = b[i] * 3 + a[i];
}

static void copied_out(int q, int *a, int lo, int n, int c)
{
#pragma acc parallel loop copyout(a[lo:n]) async(q)
    for (int i = lo; i < lo + n; i++)
        a[i] = c;
}

static void scalar(int q, int *x, int m, int c)
{
#pragma acc parallel copy(x[0:1]) async(q)
    x[0] = x[0] * m + c;
}

static void by_value(int q, int x, int *a, int lo, int n)
{
#pragma acc parallel loop present(a[lo:n]) firstprivate(x) async(q)
    for (int i = lo; i < lo + n; i++)
        a[i] += x;
}

static void through(int q, struct holder *h, int lo, int n, int m, int c)
{
#pragma acc parallel loop present(h[0:1]) async(q)
    for (int i = lo; i < lo + n; i++)
        h->p[i] = h->p[i] * m + c;
}

static void spin(int q, int rounds)
{
#pragma acc parallel async(q)
    {
        volatile int x = 0;
        for (int i = 0; i < rounds; i++)
            x = x + i;
    }
}

static void wait_for(int how, int q)
{
    if (how == 0) {
#pragma acc wait(q)
    } else if (how == 1)
        acc_wait(q);
    else
        while (!acc_async_test(q))
            usleep(20);
}

static void wait_async(int how, int q, int r)
{
    if (how == 0) {
#pragma acc wait(q) async(r)
    } else
        acc_wait_async(q, r);
}

static void wait_all_async(int how, int r)
{
    if (how == 0) {
#pragma acc wait async(r)
    } else
        acc_wait_all_async(r);
}

static void to_device(int q, int *a, int *b, int lo, int n)
{
    acc_memcpy_to_device_async(acc_deviceptr(a + lo), b + lo, n * sizeof *a, q);
}

static void from_device(int q, int *a, int *b, int lo, int n)
{
    acc_memcpy_from_device_async(b + lo, acc_deviceptr(a + lo), n * sizeof *a, q);
}

static void within(int q, int *a, int *b, int lo, int n)
{
    acc_memcpy_device_async(acc_deviceptr(a + lo), acc_deviceptr(b + lo), n * sizeof *a, q);
}

static void across(int to, int from, int q, int *a, int lo, int n)
{
    if (q == acc_async_sync)
        acc_memcpy_d2d(a + lo, a + lo, n * sizeof *a, first + to, first + from);
    else
        acc_memcpy_d2d_async(a + lo, a + lo, n * sizeof *a, first + to, first + from, q);
}

static void hold(int q, struct holder *h, int *a)
{
    h->p = a;
#pragma acc enter data copyin(h[0:1]) async(q)
}

static void drop(int q, struct holder *h)
{
#pragma acc exit data delete(h[0:1]) async(q)
}

static void renew(int q, struct holder *h)
{
#pragma acc update device(h[0:1]) async(q)
}

/* Until the end of the innermost data region. */
static void interpret(void)
{
    for (;;) {
        while (*text == '\n')
            text++;
        char what = *text++;
        lines++;
        if (what == 0) {
            text--;
            return;
        }
        if (what == 'r')
            return;
        if (what == 'N') {
            new_sequence();
            lines = 0;
            continue;
        }
        int device = number(), q = number(), array = number(), lo = number(), n = number(), v = number(), w = number();
        if (device >= 0)
            on(device);
        int *a = arrays[array], *b = arrays[array ^ 1], *x = scalars + 64 * (array % SCALARS);
        struct holder *h = holders[array / 2];
        int size = sizes[array / 2];
        int from = lo * size, len = n * size;
        switch (what) {
        case 'e': enter(v, w, q, a, from, len); break;
        case 'x': leave(v & 1, v >> 1, w, q, a, from, len); break;
        case 'R': region(v, a, from, len); break;
        case 'u': update(v, w, q, a, from, len); break;
        case 'f': fill(q, a, from, len, v); break;
        case 'm': change(q, a, from, len, v, w); break;
        case 'b': add(q, b, a, from, len); break;
        case 'c': copied(q, a, from, len, v, w); break;
        case 'i': copied_in(q, b, a, from, len); break;
        case 'o': copied_out(q, a, from, len, v); break;
        case 'X': scalar(q, x, v, w); break;
        case 'p': by_value(q, scalars[64 * v], a, from, len); break;
        case 's': spin(q, v); break;
        case 'w': wait_for(v, q); break;
        case 'W': {
#pragma acc wait
        } break;
        case 'j': wait_async(w, v, q); break;
        case 'J': wait_all_async(w, q); break;
        case 'y': across(v, device, q, a, from, len); break;
        case 'g': to_device(q, a, b, from, len); break;
        case 'G': from_device(q, a, b, from, len); break;
        case 'M': within(q, a, b, from, len); break;
        case 'h': hold(q, h, a); break;
        case 'A': acc_attach_async((void **)&h->p, q); break;
        case 'D': acc_detach_async((void **)&h->p, q); break;
        case 'U': renew(q, h); break;
        case 't': through(q, h, from, len, v, w); break;
        case 'd': drop(q, h); break;
        case 'F':
            for (int i = from; i < from + len; i++)
                a[i] = v;
            break;
        case 'S': x[0] = v; break;
        case '?':
            for (int i = from; i < from + len; i++)
                if (a[i] != v)
                    mismatch("a", array, i, a[i], v);
            break;
        case '!':
            if (x[0] != v)
                mismatch("x", array % SCALARS, 0, x[0], v);
            break;
        case 'P':
            if (acc_is_present(a + from, len * sizeof *a) != v)
                mismatch("present a", array, from, !v, v);
            break;
        default: check_failed(__FILE__, __LINE__, "a known operation");
        }
    }
}

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
    FILE *file = fopen(arguments[1], "r");
    if (!file || fseek(file, 0, SEEK_END))
        return 2;
    long bytes = ftell(file);
    rewind(file);
    text = calloc(bytes + 1, 1);
    if (!text || (long)fread(text, 1, bytes, file) != bytes)
        return 2;
    fclose(file);
    first = atoi(arguments[2]);
    if (count > 3)
        progress = open(arguments[3], O_WRONLY | O_CREAT, 0600);
    for (int i = 0; i < ARRAYS; i++)
        arrays[i] = malloc(BLOCKS * sizes[i / 2] * sizeof(int));
    for (int i = 0; i < SHAPES; i++)
        holders[i] = calloc(1, sizeof **holders);
    interpret();
    return pass();
}
