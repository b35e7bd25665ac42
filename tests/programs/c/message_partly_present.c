// Data that is present in part only: the variable, and what was mapped before.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_copyin \(message_partly_present\.c:14, main\): field \(message_partly_present\.c:8\) is present only in part on dev\d/
// EXPECT stderr=/as 80 bytes at 0x[0-9a-f]+ to 0x[0-9a-f]+ were mapped before/
#include "check.h"

static double field[100];

int main(void)
{
    acc_copyin(field, 10 * sizeof(double));
    field[0]++;
    acc_copyin(field, sizeof field);
    printf("FAIL: it came back\n");
    return 0;
}
