/* The entry points of GCC's OpenACC ABI that take "...": stable Rust can't define such
   functions. Each one makes something plain of its variable arguments and calls Rust
   (src/goacc/variadic.rs), which also exports these functions under their real names. */

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

/* Launch tags of GCC 5's form, which has none: code << 28 | device << 16 | operand. */
enum { TAG_DIM = 1, TAG_ASYNC = 2, TAG_WAIT = 3 };
enum { ASYNC_IN_NEXT = 0xffff };

/* Arrays up to this length stay on the stack. */
enum { ITEMS_ON_STACK = 48 };

/* Gives the next word of a list of launch tags. Rust takes them one by one, since only it knows how many there are. */
typedef unsigned next_word(void *list);

extern int accord_parallel(int dev, void (*fn)(void *), size_t n, void **host, size_t *sizes,
                           unsigned short *kinds, next_word *next, void *list);
extern void accord_end_host_region(void);
extern void accord_enter_data(int dev, size_t n, void **host, size_t *sizes,
                              unsigned short *kinds, int async, size_t wait_count, const int *waits);
extern void accord_exit_data(int dev, size_t n, void **host, size_t *sizes,
                             unsigned short *kinds, int async, size_t wait_count, const int *waits);
extern void accord_enter_exit_data(int dev, size_t n, void **host, size_t *sizes,
                                   unsigned short *kinds, int async, size_t wait_count, const int *waits);
extern void accord_update(int dev, size_t n, void **host, size_t *sizes,
                          unsigned short *kinds, int async, size_t wait_count, const int *waits);
extern void accord_wait(int async, size_t wait_count, const int *waits);

/* Without memory for a few hundred bytes nothing can be reported either. */
static void *take(size_t items, size_t size)
{
    void *memory = malloc(items * size);
    if (memory == NULL)
        abort();
    return memory;
}

struct arguments {
    va_list items;
};

static unsigned next_argument(void *list)
{
    struct arguments *arguments = list;
    return va_arg(arguments->items, unsigned);
}

static unsigned next_element(void *list)
{
    const unsigned **rest = list;
    return *(*rest)++;
}

/* Runs also when a C++ exception leaves the region. */
static void leave_host_region(int *entered)
{
    (void)entered;
    accord_end_host_region();
}

/* Called from here and not from Rust, so that exit, longjmp and exceptions inside a region
   never cross a Rust frame. */
static void run_on_host(void (*fn)(void *), void **host)
{
    int entered __attribute__((cleanup(leave_host_region))) = 1;
    (void)entered;
    fn(host);
}

void accord_c_parallel_keyed(int dev, void (*fn)(void *), size_t n, void **host, size_t *sizes,
                             unsigned short *kinds, ...)
{
    struct arguments tags;

    va_start(tags.items, kinds);
    int on_host = accord_parallel(dev, fn, n, host, sizes, kinds, next_argument, &tags);
    va_end(tags.items);
    if (on_host)
        run_on_host(fn, host);
}

/* GCC 5's form: the same launch with fixed dimensions. */
void accord_c_parallel(int dev, void (*fn)(void *), size_t n, void **host, size_t *sizes,
                       unsigned short *kinds, int gangs, int workers, int vector, int async,
                       int num_waits, ...)
{
    enum { TAGS_BEFORE_WAITS = 7 };
    unsigned small[ITEMS_ON_STACK];
    unsigned *tags = small;
    size_t waits = num_waits > 0 ? (size_t)num_waits : 0;
    size_t count = TAGS_BEFORE_WAITS + waits + 1;
    va_list items;

    if (count > ITEMS_ON_STACK)
        tags = take(count, sizeof *tags);
    tags[0] = (unsigned)TAG_DIM << 28 | 7;
    tags[1] = (unsigned)gangs;
    tags[2] = (unsigned)workers;
    tags[3] = (unsigned)vector;
    tags[4] = (unsigned)TAG_ASYNC << 28 | ASYNC_IN_NEXT;
    tags[5] = (unsigned)async;
    tags[6] = (unsigned)TAG_WAIT << 28 | (unsigned)(waits & 0xffff);
    va_start(items, num_waits);
    for (size_t i = 0; i < waits; i++)
        tags[TAGS_BEFORE_WAITS + i] = va_arg(items, unsigned);
    va_end(items);
    tags[count - 1] = 0;

    const unsigned *rest = tags;
    int on_host = accord_parallel(dev, fn, n, host, sizes, kinds, next_element, &rest);
    if (tags != small)
        free(tags);
    if (on_host)
        run_on_host(fn, host);
}

/* The waits of the other calls: a count, then that many queues. */
#define WITH_WAITS(last, count, waits, call)                  \
    do {                                                      \
        int small[ITEMS_ON_STACK];                            \
        int *waits = small;                                   \
        va_list items;                                        \
        size_t count = last > 0 ? (size_t)last : 0;           \
        if (count > ITEMS_ON_STACK)                           \
            waits = take(count, sizeof *waits);               \
        va_start(items, last);                                \
        for (size_t i = 0; i < count; i++)                    \
            waits[i] = va_arg(items, int);                    \
        va_end(items);                                        \
        call;                                                 \
        if (waits != small)                                   \
            free(waits);                                      \
    } while (0)

#define DATA_CALL(name)                                                                     \
    void accord_c_##name(int dev, size_t n, void **host, size_t *sizes,                     \
                         unsigned short *kinds, int async, int num_waits, ...)              \
    {                                                                                       \
        WITH_WAITS(num_waits, count, waits,                                                 \
                   accord_##name(dev, n, host, sizes, kinds, async, count, waits));         \
    }

DATA_CALL(enter_data)
DATA_CALL(exit_data)
DATA_CALL(enter_exit_data)
DATA_CALL(update)

void accord_c_wait(int async, int num_waits, ...)
{
    WITH_WAITS(num_waits, count, waits, accord_wait(async, count, waits));
}
