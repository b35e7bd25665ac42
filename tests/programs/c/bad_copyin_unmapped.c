// A clause that names memory which the program does not have: an error that says so, not a crash.
// Threads of a driver may map something there meanwhile that must not be touched.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/parallel .*on .*(not mapped|may not be read).*acc_error_invalid_argument.*check the bounds/
#include "check.h"
#include <sys/mman.h>

int main(void)
{
    size_t page = 1 << 16;
    char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    munmap(memory + page, page);
    int sum = 0;
#pragma acc parallel loop copyin(memory[0:page + 100]) reduction(+:sum)
    for (size_t i = 0; i < page + 100; i++)
        sum += memory[i];
    printf("FAIL: the region ran: %d\n", sum);
    return 0;
}
