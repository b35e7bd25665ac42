// A large section, asynchronously, that ends in pages without access.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/enter data .*on .*queue 1.*may not be read.*acc_error_invalid_argument/
#include "check.h"
#include <sys/mman.h>

int main(void)
{
    size_t half = 4 << 20;
    char *memory = mmap(NULL, 2 * half, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    mprotect(memory + half, half, PROT_NONE);
#pragma acc enter data copyin(memory[0:2 * half]) async(1)
#pragma acc wait
    printf("FAIL: copied what may not be read\n");
    return 0;
}
