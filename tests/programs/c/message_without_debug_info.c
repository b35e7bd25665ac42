// Without debug information a global has the name of its symbol and a distance, and the call its function.
// BUILD flags=-g0
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_update_device \(worker_of_it\): table\+400 is not present on dev\d/
// EXPECT stderr=/; compile with -g to see variables and lines\n/
#include "check.h"

double table[100];

__attribute__((noinline)) void worker_of_it(void)
{
    acc_update_device(&table[50], 8 * sizeof(double));
    table[0]++;
}

int main(void)
{
    worker_of_it();
    printf("FAIL: the update came back\n");
    return 0;
}
