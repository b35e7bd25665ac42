// Random work on all devices against a model of what it must do: `random_work SEED STEPS`.
//
// Array k is worked on in queue k of whatever device, so that what happens to it there is in order; its host memory is
// touched only when nothing in those queues does.
#include "check.h"

enum { ARRAYS = 6, DEVICES = 8, LONGEST = 120000 };

static unsigned long long state;
static int devices;
static acc_device_t type;

static struct array {
    int n;
    int *host;             /* the program's memory */
    int *model;            /* what must be there */
    int *copy[DEVICES];    /* what must be on a device; NULL: not present */
    int count[DEVICES];    /* dynamic references */
    int busy[DEVICES];     /* queued work may touch the host's memory */
} arrays[ARRAYS];

static unsigned below(unsigned limit)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33) % limit;
}

static void settle(int k)
{
    int current = acc_get_device_num(type);
    for (int d = 0; d < devices; d++)
        if (arrays[k].busy[d]) {
            acc_set_device_num(d, type);
            acc_wait(k);
            arrays[k].busy[d] = 0;
        }
    acc_set_device_num(current, type);
}

static void compare(int k)
{
    struct array *a = &arrays[k];
    settle(k);
    for (int i = 0; i < a->n; i++)
        if (a->host[i] != a->model[i]) {
            printf("FAIL array %d of %d: [%d] is %d, expected %d\n", k, a->n, i, a->host[i], a->model[i]);
            exit(1);
        }
}

static void change_host(int k)
{
    struct array *a = &arrays[k];
    compare(k);
    for (int i = 0, by = (int)below(1000); i < a->n; i++)
        a->host[i] = a->model[i] = a->model[i] + by;
}

static void section(const struct array *a, int *first, int *count)
{
    *first = (int)below(a->n);
    *count = 1 + (int)below(below(4) ? 20 : a->n);
    if (*first + *count > a->n)
        *count = a->n - *first;
}

static void enter(int k, int d, int synchronous)
{
    struct array *a = &arrays[k];
    int *p = a->host, n = a->n, queue = synchronous ? acc_async_sync : k;
    if (!a->copy[d]) {
        a->copy[d] = malloc(n * sizeof(int));
        memcpy(a->copy[d], a->model, n * sizeof(int));
        settle(k);
        a->busy[d] = !synchronous;
    } else if (a->busy[d]) {
        acc_wait(k);
        a->busy[d] = 0;
    }
    a->count[d]++;
#pragma acc enter data copyin(p[0:n]) async(queue)
}

static void leave(int k, int d, int copyout)
{
    struct array *a = &arrays[k];
    int *p = a->host, n = a->n;
    settle(k);
    if (--a->count[d] == 0) {
        if (copyout)
            memcpy(a->model, a->copy[d], n * sizeof(int));
        free(a->copy[d]);
        a->copy[d] = NULL;
    }
    if (copyout) {
#pragma acc exit data copyout(p[0:n]) async(k)
    } else {
#pragma acc exit data delete(p[0:n]) async(k)
    }
    a->busy[d] = 1;
}

static void update(int k, int d, int to_device)
{
    struct array *a = &arrays[k];
    int *p = a->host, first, count;
    section(a, &first, &count);
    settle(k);
    if (to_device) {
#pragma acc update device(p[first:count]) async(k)
        memcpy(a->copy[d] + first, a->model + first, count * sizeof(int));
    } else {
#pragma acc update self(p[first:count]) async(k)
        memcpy(a->model + first, a->copy[d] + first, count * sizeof(int));
    }
    a->busy[d] = 1;
}

static void launch(int k, int d)
{
    struct array *a = &arrays[k];
    int *p = a->host, n = a->n, first, count, by = (int)below(100);
    section(a, &first, &count);
#pragma acc parallel loop present(p[0:n]) async(k)
    for (int i = first; i < first + count; i++)
        p[i] = p[i] * 3 + by;
    for (int i = first; i < first + count; i++)
        a->copy[d][i] = (int)((unsigned)a->copy[d][i] * 3u + (unsigned)by);
}

static void whole_region(int k, int d)
{
    struct array *a = &arrays[k];
    int *p = a->host, n = a->n, by = (int)below(100);
    settle(k);
#pragma acc parallel loop copy(p[0:n]) async(k)
    for (int i = 0; i < n; i++)
        p[i] ^= by;
    int *changed = a->copy[d] ? a->copy[d] : a->model;
    for (int i = 0; i < n; i++)
        changed[i] ^= by;
    a->busy[d] = 1;
}

static void exchange(int k, int from, int to)
{
    struct array *a = &arrays[k];
    int first, count;
    section(a, &first, &count);
    acc_set_device_num(to, type);
    acc_wait(k); /* the target's queue is its own */
    acc_set_device_num(from, type);
    if (below(2)) {
        acc_memcpy_d2d_async(a->host + first, a->host + first, count * sizeof(int), to, from, k);
    } else {
        acc_wait(k);
        acc_memcpy_d2d(a->host + first, a->host + first, count * sizeof(int), to, from);
    }
    if (from != to)
        acc_wait(k); /* before the target's queue goes on */
    if (from != to)
        memcpy(a->copy[to] + first, a->copy[from] + first, count * sizeof(int));
}

/* Sections of two arrays in a row to whatever devices, which may overlap, with regions on the source in between. */
static void burst(int k, int other, int from)
{
    const int both[] = { k, arrays[other].copy[from] ? other : k };
    for (int i = 0; i < 2; i++)
        for (int d = 0; d < devices; d++)
            if (arrays[both[i]].copy[d]) {
                acc_set_device_num(d, type);
                acc_wait(both[i]); /* the targets' queues are their own */
            }
    acc_set_device_num(from, type);
    for (int left = 1 + (int)below(24); left > 0; left--) {
        int queue = both[below(2)], to = (int)below(devices), first, count;
        struct array *a = &arrays[queue];
        if (to != from && a->copy[to]) {
            section(a, &first, &count);
            acc_memcpy_d2d_async(a->host + first, a->host + first, count * sizeof(int), to, from, queue);
            memcpy(a->copy[to] + first, a->copy[from] + first, count * sizeof(int));
        }
        if (below(3) == 0)
            launch(queue, from);
    }
    acc_wait(both[0]); /* before the targets' queues go on */
    acc_wait(both[1]);
}

/* Ends all devices while copies between them are under way: what becomes of these is not seen. */
static void shut_down(void)
{
    for (int k = 0; k < ARRAYS; k++)
        settle(k);
    for (int copies = (int)below(12); copies > 0; copies--) {
        struct array *a = &arrays[below(ARRAYS)];
        int from = (int)below(devices), to = (int)below(devices);
        acc_set_device_num(from, type);
        if (a->copy[from] && a->copy[to])
            acc_memcpy_d2d_async(a->host, a->host, a->n * sizeof(int), to, from, (int)(a - arrays));
    }
    acc_shutdown(type);
    for (int k = 0; k < ARRAYS; k++)
        for (int d = 0; d < devices; d++) {
            free(arrays[k].copy[d]);
            arrays[k].copy[d] = NULL;
            arrays[k].count[d] = 0;
        }
}

static void step(void)
{
    int k = (int)below(ARRAYS), d = (int)below(devices), other = (int)below(devices);
    struct array *a = &arrays[k];
    if (below(100) == 0)
        shut_down();
    acc_set_device_num(d, type);
    switch (below(13)) {
    case 0: enter(k, d, 0); break;
    case 1: enter(k, d, 1); break;
    case 2: if (a->copy[d]) leave(k, d, (int)below(2)); break;
    case 3: if (a->copy[d]) update(k, d, 1); break;
    case 4: if (a->copy[d]) update(k, d, 0); break;
    case 5: case 6: case 7: if (a->copy[d]) launch(k, d); break;
    case 8: whole_region(k, d); break;
    case 9: if (a->copy[d] && a->copy[other]) exchange(k, d, other); break;
    case 10: change_host(k); break;
    case 11: acc_wait_async((int)below(ARRAYS), (int)below(ARRAYS)); break;
    case 12: if (a->copy[d]) burst(k, (int)below(ARRAYS), d); break;
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 3 && acc_memcpy_d2d_async != NULL);
    state = strtoull(argv[1], NULL, 10) * 77 + 1;
    type = device_type();
    devices = device_count() < DEVICES ? device_count() : DEVICES;
    for (int k = 0; k < ARRAYS; k++) {
        struct array *a = &arrays[k];
        a->n = 1 + (int)below(k % 3 ? 300 : LONGEST);
        a->host = malloc(a->n * sizeof(int));
        a->model = malloc(a->n * sizeof(int));
        for (int i = 0; i < a->n; i++)
            a->host[i] = a->model[i] = (int)below(1000000);
    }
    for (int left = atoi(argv[2]); left > 0; left--)
        step();
    for (int k = 0; k < ARRAYS; k++)
        for (int d = 0; d < devices; d++) {
            acc_set_device_num(d, type);
            CHECK_EQ(acc_is_present(arrays[k].host, arrays[k].n * sizeof(int)), arrays[k].copy[d] != NULL);
            while (arrays[k].copy[d])
                leave(k, d, 1);
            compare(k);
        }
    return pass();
}
