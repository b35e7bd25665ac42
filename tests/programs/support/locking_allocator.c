/* An allocator of its own with a lock, which it holds over mmap and munmap and, like jemalloc, over fork. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { CLASSES = 48, LARGE = 1 << 16, PIECE = 1 << 22 };

struct head {
    void *start;
    size_t bytes, size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *spare[CLASSES];
static char *piece, *piece_end;

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

__attribute__((constructor)) static void at_start(void) { pthread_atfork(before_fork, after_fork, after_fork); }

static void *pages(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static int class_of(size_t size)
{
    int class = 5;
    while (((size_t)1 << class) < size)
        class++;
    return class;
}

static void *take(size_t align, size_t size)
{
    if (align < 16)
        align = 16;
    size_t bytes = size + align + sizeof(struct head);
    char *at = NULL;
    pthread_mutex_lock(&lock);
    if (bytes >= LARGE) {
        at = pages(bytes);
    } else {
        int class = class_of(bytes);
        bytes = (size_t)1 << class;
        if (spare[class]) {
            at = spare[class];
            spare[class] = *(void **)at;
        } else {
            if (!piece || piece + bytes > piece_end) {
                piece = pages(PIECE);
                piece_end = piece ? piece + PIECE : NULL;
            }
            if (piece) {
                at = piece;
                piece += bytes;
            }
        }
    }
    pthread_mutex_unlock(&lock);
    if (!at)
        return NULL;
    uintptr_t block = ((uintptr_t)at + sizeof(struct head) + align - 1) & ~(uintptr_t)(align - 1);
    *((struct head *)block - 1) = (struct head){at, bytes, size};
    return (void *)block;
}

void free(void *block)
{
    if (!block)
        return;
    struct head head = *((struct head *)block - 1);
    pthread_mutex_lock(&lock);
    if (head.bytes >= LARGE) {
        munmap(head.start, head.bytes);
    } else {
        int class = class_of(head.bytes);
        *(void **)head.start = spare[class];
        spare[class] = head.start;
    }
    pthread_mutex_unlock(&lock);
}

void *malloc(size_t size) { return take(16, size); }
void *aligned_alloc(size_t align, size_t size) { return take(align, size); }
void *memalign(size_t align, size_t size) { return take(align, size); }
void *valloc(size_t size) { return take(4096, size); }
void *pvalloc(size_t size) { return take(4096, (size + 4095) & ~(size_t)4095); }
size_t malloc_usable_size(void *block) { return block ? ((struct head *)block - 1)->size : 0; }

void *calloc(size_t count, size_t size)
{
    void *block = take(16, count * size);
    return block ? memset(block, 0, count * size) : NULL;
}

int posix_memalign(void **block, size_t align, size_t size)
{
    *block = take(align, size);
    return *block ? 0 : 12;
}

void *realloc(void *old, size_t size)
{
    void *block = take(16, size);
    if (old && block) {
        size_t was = ((struct head *)old - 1)->size;
        memcpy(block, old, was < size ? was : size);
        free(old);
    }
    return block;
}
