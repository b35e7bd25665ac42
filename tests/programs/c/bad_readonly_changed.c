// A region that changes what is read-only in the program: an error, as the change can't come back.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/parallel .*changed by a region.*read-only.*acc_error_invalid_argument/
#include "check.h"
#include <sys/mman.h>

int main(void)
{
    size_t n = 30000;
    int *view = mmap(NULL, n * sizeof *view, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK((void *)view != MAP_FAILED);
    mprotect(view, n * sizeof *view, PROT_READ);
#pragma acc parallel loop copy(view[0:n])
    for (size_t i = 0; i < n; i++)
        view[i] = 1;
    printf("FAIL: the change is lost\n");
    return 0;
}
