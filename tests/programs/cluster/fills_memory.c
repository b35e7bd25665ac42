// Waits for a line, then has a region write to each page of so many MiB of device memory.
#include "check.h"

int main(int count, char **arguments)
{
    char line[100];
    printf("ready\n");
    fflush(stdout);
    CHECK(count == 2 && fgets(line, sizeof line, stdin));
    size_t pages = atol(arguments[1]) * 256;
    char *memory = acc_malloc(pages * 4096);
    CHECK(memory != NULL);
#pragma acc parallel loop deviceptr(memory)
    for (size_t page = 0; page < pages; page++)
        memory[page * 4096] = 1;
    return pass();
}
