/* An allocator of its own, which ends the program if it is to free a block of another one. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 64, MARK = 0x5ca1ab1e };

static char pool[(size_t)512 << 20];
static size_t used;

struct head {
    uint64_t mark, size;
};

static void *take(size_t align, size_t size)
{
    if (align < 16)
        align = 16;
    size_t at = __atomic_fetch_add(&used, size + align + ROOM, __ATOMIC_RELAXED);
    if (at + size + align + ROOM > sizeof pool)
        return 0;
    uintptr_t block = ((uintptr_t)pool + at + sizeof(struct head) + align - 1) & ~(uintptr_t)(align - 1);
    *((struct head *)block - 1) = (struct head){MARK, size};
    return (void *)block;
}

static struct head *head_of(void *block)
{
    struct head *head = (struct head *)block - 1;
    if ((char *)block < pool || (char *)block >= pool + sizeof pool || head->mark != MARK) {
        static const char said[] = "allocator: a block of another one\n";
        (void)!write(2, said, sizeof said - 1);
        _exit(99);
    }
    return head;
}

void *malloc(size_t size) { return take(16, size); }
void *calloc(size_t count, size_t size) { return take(16, count * size); } /* never used before: zeros */
void *aligned_alloc(size_t align, size_t size) { return take(align, size); }
void *memalign(size_t align, size_t size) { return take(align, size); }
void *valloc(size_t size) { return take(4096, size); }
void *pvalloc(size_t size) { return take(4096, (size + 4095) & ~(size_t)4095); }
size_t malloc_usable_size(void *block) { return block ? head_of(block)->size : 0; }

int posix_memalign(void **block, size_t align, size_t size)
{
    *block = take(align, size);
    return *block ? 0 : 12;
}

void free(void *block)
{
    if (block)
        head_of(block);
}

void *realloc(void *old, size_t size)
{
    void *block = take(16, size);
    if (old && block)
        memcpy(block, old, head_of(old)->size < size ? head_of(old)->size : size);
    return block;
}
