// Waits for a line, then copies so many MiB to the device, each to a place of its own.
#include "check.h"

enum { PIECE = 1 << 20 };
static char piece[PIECE];

int main(int count, char **arguments)
{
    char line[100];
    CHECK(count == 2);
    size_t bytes = (size_t)atol(arguments[1]) * PIECE;
    char *memory = acc_malloc(bytes);
    CHECK(memory != NULL);
    acc_memcpy_to_device(memory, piece, PIECE);
    printf("ready\n");
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin));
    for (size_t at = 0; at < bytes; at += PIECE)
        acc_memcpy_to_device(memory + at, piece, PIECE);
    return pass();
}
