// Launches of many regions that name constant tables do not look through the list of loaded objects, however many regions there are.
// BUILD offload=no
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <link.h>

static int visited;

struct walk {
    int (*visit)(struct dl_phdr_info *, size_t, void *);
    void *with;
};

static int count(struct dl_phdr_info *info, size_t size, void *with)
{
    struct walk *walk = with;
    visited++;
    return walk->visit(info, size, walk->with);
}

/* The loader's function, in front of the C library's. */
int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *with)
{
    static int (*real)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
    if (!real)
        real = (int (*)(int (*)(struct dl_phdr_info *, size_t, void *), void *))dlsym(RTLD_NEXT, "dl_iterate_phdr");
    struct walk walk = {visit, with};
    return real(count, &walk);
}

static int one(int x)
{
    return x + 1;
}

static int (*const functions[1])(int) = {one};

#define REGION(n)                        \
    static int region_##n(int x)         \
    {                                    \
        _Pragma("acc parallel copy(x)")  \
        x = functions[0](x) + n;         \
        return x;                        \
    }
#define TEN(go, n) go(n##0) go(n##1) go(n##2) go(n##3) go(n##4) go(n##5) go(n##6) go(n##7) go(n##8) go(n##9)
#define ALL(go) TEN(go, 1) TEN(go, 2) TEN(go, 3) TEN(go, 4) TEN(go, 5) TEN(go, 6) TEN(go, 7) TEN(go, 8) TEN(go, 9)
ALL(REGION)

#define NAME(n) region_##n,
static int (*const regions[])(int) = {ALL(NAME)};
#define MANY (int)(sizeof regions / sizeof *regions)

static void launch_all(void)
{
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(regions[i](5), 5 + 1 + 10 + i);
}

int main(void)
{
    launch_all();
    visited = 0;
    launch_all();
    /* Each call looks at the counters in the first record. */
    CHECK(visited <= 2 * MANY);
    return pass();
}
