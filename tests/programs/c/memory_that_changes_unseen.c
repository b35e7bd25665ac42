// Memory whose mapping changes while it is present, by functions of the executable's own that come before libacc's: however often copies of it
// have gone well before, the next one is an error where it can't be done, and compares where the memory is read-only now.
// EXPECT device-memory
// BUILD with=heap_by_system_calls.c
// BUILD flags=-fno-builtin
#include "error_callback.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BOTH = PROT_READ | PROT_WRITE, OWN = MAP_PRIVATE | MAP_ANONYMOUS, PAGE = 4096, BLOCK = 8 << 20, AS_EXPECTED = 42 };

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

static char *by_free(size_t bytes)
{
    char *memory = malloc(BLOCK);
    copy_often(memory + BLOCK / 2, bytes);
    free(memory);
    return memory + BLOCK / 2;
}

static char *by_realloc(size_t bytes)
{
    char *memory = malloc(BLOCK);
    copy_often(memory + BLOCK / 2, bytes);
    CHECK(realloc(memory, BLOCK / 4) != NULL);
    return memory + BLOCK / 2;
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

int main(void)
{
    each_way("free", by_free, 0);
    each_way("free", by_free, 1);
    each_way("realloc", by_realloc, 0);
    each_way("munmap", by_munmap, 1);
    each_way("mprotect", by_mprotect, 0);
    char *memory = map(PAGE);
    copy_often(memory, PAGE);
    mprotect(memory, PAGE, PROT_READ);
    acc_update_self(memory, PAGE);
    CHECK_EQ(memory[PAGE - 1], 1);
    return pass();
}
