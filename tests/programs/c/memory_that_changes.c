// Memory whose mapping changes while it is present: however often copies of it have gone well before, the next one is an error where it
// can't be done, and compares where the memory is read-only now. Each way has a process of its own.
// EXPECT device-memory
#define _GNU_SOURCE
#include "error_callback.h"
#include <malloc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BOTH = PROT_READ | PROT_WRITE, OWN = MAP_PRIVATE | MAP_ANONYMOUS, PAGE = 4096 };

enum { AS_EXPECTED = 42 };

static void leave(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    _exit(AS_EXPECTED);
}

static char *map(size_t bytes)
{
    char *memory = mmap(NULL, bytes, BOTH, OWN, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* So often that whatever is kept about mappings is kept. */
static void copy_often(char *memory, size_t bytes)
{
    memset(memory, 1, bytes);
    acc_copyin(memory, bytes);
    for (int i = 0; i < 50; i++) {
        acc_update_device(memory, bytes);
        acc_update_self(memory, bytes);
    }
}

static char *by_munmap(size_t bytes)
{
    char *memory = map(bytes);
    copy_often(memory, bytes);
    munmap(memory, bytes);
    return memory;
}

static char *by_mprotect(size_t bytes)
{
    char *memory = map(bytes);
    copy_often(memory, bytes);
    mprotect(memory, bytes, PROT_NONE);
    return memory;
}

static char *by_mmap(size_t bytes)
{
    char *memory = map(bytes);
    copy_often(memory, bytes);
    CHECK(mmap(memory, bytes, PROT_NONE, OWN | MAP_FIXED, -1, 0) == memory);
    return memory;
}

static char *by_mremap(size_t bytes)
{
    char *memory = map(2 * bytes);
    copy_often(memory + bytes, bytes);
    CHECK(mremap(memory, 2 * bytes, bytes, 0) == memory);
    return memory + bytes;
}

static char *by_shmdt(size_t bytes)
{
    int id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
    CHECK(id >= 0);
    char *memory = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    copy_often(memory, bytes);
    shmdt(memory);
    return memory;
}

/* More than the C library ever takes from its heap. */
enum { BLOCK = 40 << 20 };

static char *by_free(size_t bytes)
{
    char *memory = malloc(BLOCK);
    copy_often(memory + BLOCK / 2, bytes);
    free(memory);
    return memory + BLOCK / 2;
}

static char *by_aligned_free(size_t bytes)
{
    char *memory = aligned_alloc(64, BLOCK);
    copy_often(memory + BLOCK / 2, bytes);
    free(memory);
    return memory + BLOCK / 2;
}

static char *by_realloc(size_t bytes)
{
    char *memory = malloc(BLOCK);
    copy_often(memory + BLOCK / 2, bytes);
    char *rest = realloc(memory, BLOCK / 4);
    CHECK(rest != NULL);
    return memory + BLOCK / 2;
}

static void each_way(const char *name, char *(*act)(size_t), int self)
{
    size_t bytes = self ? 2 << 20 : PAGE;
    int status;
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        on_errors(leave);
        char *memory = act(bytes);
        if (self)
            acc_update_self(memory, bytes);
        else
            acc_update_device(memory, bytes);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != AS_EXPECTED) {
        printf("FAIL %s, %zu bytes: ended with %#x\n", name, bytes, status);
        exit(1);
    }
}

/* Read-only from some time on, or another mapping at the same place. */
static void becomes_constant(size_t bytes, int again)
{
    char *memory = map(bytes);
    copy_often(memory, bytes);
    if (again) {
        munmap(memory, bytes);
        CHECK(mmap(memory, bytes, BOTH, OWN, -1, 0) == memory);
        memset(memory, 1, bytes);
    }
    mprotect(memory, bytes, PROT_READ);
    acc_update_self(memory, bytes);
    acc_update_device(memory, bytes);
    acc_update_self(memory, bytes);
    CHECK_EQ(memory[bytes - 1], 1);
    mprotect(memory, bytes, BOTH);
    memory[bytes - 1] = 7;
    acc_update_device(memory, bytes);
    memory[bytes - 1] = 0;
    acc_update_self(memory, bytes);
    CHECK_EQ(memory[bytes - 1], 7);
    acc_delete(memory, bytes);
    munmap(memory, bytes);
}

int main(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    each_way("munmap", by_munmap, 1);
    each_way("mprotect", by_mprotect, 0);
    each_way("mmap", by_mmap, 1);
    each_way("mremap", by_mremap, 0);
    each_way("shmdt", by_shmdt, 1);
    each_way("free", by_free, 0);
    each_way("free of an aligned block", by_aligned_free, 1);
    each_way("realloc", by_realloc, 0);
    for (int nth = 0; nth < 4; nth++)
        becomes_constant(nth % 2 ? 2 << 20 : PAGE, nth / 2);
    return pass();
}
