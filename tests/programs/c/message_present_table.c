// ACCORD_EXPLAIN_ERRORS: an error about absent data shows the present table around it, with the lines that have mapped its entries and their counts.
// BUILD flags=-g -O0
// RUN env=ACCORD_EXPLAIN_ERRORS=1
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/update \(message_present_table\.c:2[56], main\): block \(message_present_table\.c:17, main\) is not present on dev\d+ /
// EXPECT stderr=/\n  the nearest of the data that is present there, 6 of \d+:\n/
// EXPECT stderr=/\n    80 bytes of block \(message_present_table\.c:17, main\) at 0x[0-9a-f]+ to 0x[0-9a-f]+, 720 bytes below, mapped at message_present_table\.c:2[12], main, structured references 0, dynamic 1\n/
// EXPECT stderr=/\n    80 bytes of block \(message_present_table\.c:17, main\) at 0x[0-9a-f]+ to 0x[0-9a-f]+, 720 bytes above, mapped at message_present_table\.c:2[12], main, structured references 0, dynamic 1\n/
#include "check.h"

#define N 100
#define PARTS 10

int main(void)
{
    double *block = calloc(PARTS * N, sizeof *block);

    for (int i = 0; i < PARTS; i++) {
        if (i != 5) {
#pragma acc enter data copyin(block[i * N:10])
        }
    }
    /* Entry 5 is absent; those of 2 to 4 and 6 to 8 are shown. */
#pragma acc update self(block[5 * N:10])
    printf("FAIL: the update came back\n");
    return 0;
}
