// Memory that the program has given back before the data region's end.
// Threads of a driver may map something there meanwhile that must not be touched.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/end data .*on .*(not mapped|may not be written).*acc_error_invalid_argument/
#include "check.h"
#include <sys/mman.h>

int main(void)
{
    size_t bytes = 8 << 20;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
#pragma acc data copy(memory[0:bytes])
    {
        munmap(memory, bytes);
    }
    printf("FAIL: copied to memory that is not there\n");
    return 0;
}
