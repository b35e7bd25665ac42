// A region that changes pages of an array that are read-only in the program, others than those that can be written: what
// can't come back is said, with the place.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/update \(bad_partly_readonly\.c:31, main\): view \(bad_partly_readonly\.c:19, main\) is changed by a region, also in pages that are read-only in the program.*of which 8192 at 0x[0-9a-f]+ are read-only; from 0x[0-9a-f]+ on \(byte 20480\).*acc_error_invalid_argument.*make these pages writable/
#include "check.h"
#include <sys/mman.h>

static void touch(int *view, size_t from, size_t to)
{
#pragma acc parallel loop present(view)
    for (size_t i = from; i < to; i++)
        view[i]++;
}

int main(void)
{
    size_t n = 16 * 1024;
    int *view = mmap(NULL, n * sizeof *view, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK((void *)view != MAP_FAILED);
    mprotect((char *)view + 4 * 4096, 2 * 4096, PROT_READ);
#pragma acc data copyin(view[0:n])
    {
        touch(view, 0, 4096);
        touch(view, 6 * 1024, n);
#pragma acc update self(view[0:n])
        CHECK_EQ(view[0], 1);
        CHECK_EQ(view[n - 1], 1);
        touch(view, 5 * 1024, 5 * 1024 + 1);
        fflush(stdout);
#pragma acc update self(view[0:n])
    }
    printf("FAIL: the change is lost\n");
    return 0;
}
