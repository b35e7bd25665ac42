// A section of which several parts are present: the message names them.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_copyin .*: field \(.*\) is present only in part .*as these were: 80 bytes at 0x\w+ to 0x\w+, 160 bytes at 0x\w+ to 0x\w+; mapped before \[acc_error_partly_present\]; map the larger section first/
#include "check.h"

static double field[100];

int main(void)
{
    acc_copyin(field, 10 * sizeof(double));
    acc_copyin(field + 50, 20 * sizeof(double));
    acc_copyin(field, sizeof field);
    return 0;
}
