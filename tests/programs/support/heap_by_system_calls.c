/* A heap of the executable's own, and its own munmap and mprotect: all of them change mappings by system calls, which no library sees. It ends
   the program if it is to free another heap's block. */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROOM = 64, MARK = 0x5ca1ab1e, LARGE = 1 << 16 };

static char pool[(size_t)256 << 20];
static size_t used;

struct head {
    uint64_t mark, size, mapped;
};

int munmap(void *start, size_t bytes) { return syscall(SYS_munmap, start, bytes); }
int mprotect(void *start, size_t bytes, int access) { return syscall(SYS_mprotect, start, bytes, access); }

static void *take(size_t align, size_t size)
{
    if (align < 16)
        align = 16;
    size_t bytes = size + align + ROOM;
    uintptr_t from;
    if (size >= LARGE) {
        bytes = (bytes + 4095) & ~(size_t)4095;
        long at = syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == -1)
            return NULL;
        from = at;
    } else {
        size_t at = __atomic_fetch_add(&used, bytes, __ATOMIC_RELAXED);
        if (at + bytes > sizeof pool)
            return NULL;
        from = (uintptr_t)pool + at;
    }
    uintptr_t block = (from + sizeof(struct head) + align - 1) & ~(uintptr_t)(align - 1);
    *((struct head *)block - 1) = (struct head){MARK, size, size >= LARGE ? from : 0};
    return (void *)block;
}

static struct head *head_of(void *block)
{
    struct head *head = (struct head *)block - 1;
    if ((uintptr_t)block % 16 || head->mark != MARK) {
        static const char said[] = "heap: a block of another one\n";
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
    if (!block)
        return;
    struct head *head = head_of(block);
    if (head->mapped)
        munmap((void *)head->mapped, (uintptr_t)block - head->mapped + head->size);
}

void *realloc(void *old, size_t size)
{
    void *block = take(16, size);
    if (old && block)
        memcpy(block, old, head_of(old)->size < size ? head_of(old)->size : size);
    if (block)
        free(old);
    return block;
}
