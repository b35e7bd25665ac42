// A mapped file that has become shorter than the section: where its pages are gone, touching them raises SIGBUS.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_copyin .*on .*file.*shorter.*acc_error_invalid_argument/
#include "check.h"
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
    size_t bytes = 2 << 20;
    char name[] = "/tmp/accord-test-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0);
    unlink(name);
    CHECK_EQ(ftruncate(file, (off_t)bytes), 0);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(memory != MAP_FAILED);
    CHECK_EQ(ftruncate(file, 4096), 0);
    acc_copyin(memory, bytes);
    printf("FAIL: copied what is not there\n");
    return 0;
}
