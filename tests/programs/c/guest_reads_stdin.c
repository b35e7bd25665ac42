// Nothing but the program reads its standard input.
#include "check.h"
#include <unistd.h>

int main(void)
{
    int ends[2], x = 0;
    char text[16] = "";
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(write(ends[1], "for me\n", 7), 7);
    dup2(ends[0], 0);
    close(ends[1]);
#pragma acc parallel copy(x)
    x = 1;
    CHECK_EQ(x, 1);
    CHECK(fgets(text, sizeof text, stdin) != NULL);
    CHECK(strcmp(text, "for me\n") == 0);
    return pass();
}
