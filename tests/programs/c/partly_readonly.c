// A copy to memory of which some pages are read-only writes the others; what a region leaves as it was is no error.
#include "check.h"
#include <sys/mman.h>
#include <unistd.h>

static long page;

/* Pages of which those from `first` to before `last` are read-only. */
static int *pages(int count, int first, int last)
{
    char *view = mmap(NULL, (size_t)(count * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK((void *)view != MAP_FAILED);
    int *numbers = (int *)view;
    for (long i = 0; i < count * page / 4; i++)
        numbers[i] = (int)i;
    CHECK(mprotect(view + first * page, (size_t)((last - first) * page), PROT_READ) == 0);
    return numbers;
}

/* Elements before `from` and from `to` on have changed by `by`. */
static void check(const int *numbers, long n, long from, long to, int by)
{
    for (long i = 0; i < n; i++)
        CHECK_EQ(numbers[i], i + (i < from || i >= to ? by : 0));
}

static void constructs(int count, int first, int last)
{
    int *v = pages(count, first, last);
    long n = count * page / 4, from = first * page / 4, to = last * page / 4;
#pragma acc parallel loop copy(v[0:n])
    for (long i = 0; i < n; i++)
        if (i < from || i >= to)
            v[i] += 1;
    check(v, n, from, to, 1);
#pragma acc parallel loop copy(v[0:n]) async(3)
    for (long i = 0; i < n; i++)
        if (i < from || i >= to)
            v[i] += 1;
#pragma acc wait(3)
    check(v, n, from, to, 2);
#pragma acc data copyin(v[0:n])
    {
#pragma acc parallel loop present(v[0:n])
        for (long i = 0; i < n; i++)
            if (i < from || i >= to)
                v[i] += 1;
#pragma acc update self(v[0:n])
        check(v, n, from, to, 3);
        if (separate()) {
            /* A part that begins and ends inside of pages. */
            for (long i = 1; i < from; i++)
                v[i] = 0;
#pragma acc update self(v[1:n-2]) async
#pragma acc wait
            check(v, n, from, to, 3);
        }
    }
    acc_copyin(v, (size_t)n * 4);
#pragma acc parallel loop present(v[0:n])
    for (long i = 0; i < n; i++)
        if (i < from || i >= to)
            v[i] += 1;
    acc_update_self(v, (size_t)n * 4);
    check(v, n, from, to, 4);
    if (separate())
        acc_memcpy_from_device(v, acc_deviceptr(v), (size_t)n * 4);
    check(v, n, from, to, 4);
    acc_copyout(v, (size_t)n * 4);
    check(v, n, from, to, 4);
    munmap(v, (size_t)(count * page));
}

struct record {
    double a[8];
};

/* A variable that begins in a page that can be written and ends in one that can't. */
static void across(void)
{
    char *view = (char *)pages(2, 1, 2);
    struct record *s = (struct record *)(view + page - 32);
#pragma acc kernels copy(s[0:1])
    s->a[0] = 2.5;
    CHECK_EQ(s->a[0], 2.5);
#pragma acc parallel copy(s[0:1]) async(1)
    s->a[1] = 3.5;
#pragma acc wait
    CHECK_EQ(s->a[1], 3.5);
    munmap(view, (size_t)(2 * page));
}

/* Every other page. */
static void many(int count)
{
    int *v = pages(count, 0, 0);
    long n = count * page / 4, each = page / 4;
    for (int k = 0; k < count; k += 2)
        CHECK(mprotect((char *)v + k * page, (size_t)page, PROT_READ) == 0);
#pragma acc parallel loop copy(v[0:n])
    for (long i = 0; i < n; i++)
        if (i / each % 2)
            v[i] += 1;
    for (long i = 0; i < n; i++)
        CHECK_EQ(v[i], i + i / each % 2);
    munmap(v, (size_t)(count * page));
}

int main(void)
{
    page = sysconf(_SC_PAGESIZE);
    constructs(4, 1, 2);
    constructs(4, 3, 4);
    constructs(4, 0, 2);
    constructs(700, 300, 302);
    constructs(700, 1, 699);
    across();
    many(20);
    many(400);
    return pass();
}
