// Offload code of a GCC that is newer than the machine's libgomp: that library would end the program.
// EXPECT device-memory
#include "check.h"

void GOMP_offload_register_ver(unsigned version, const void *table, int target, const void *data);
void GOMP_offload_unregister_ver(unsigned version, const void *table, int target, const void *data);

int main(void)
{
    enum { VERSION = 1000 << 16 | 1, AMD = 8 };
    static const void *const nothing[1];
    static const void *const table[6] = {nothing, nothing, nothing, nothing, nothing, nothing};
    GOMP_offload_register_ver(VERSION, table, AMD, nothing);
    int x = 1;
#pragma acc parallel copy(x)
    x++;
    CHECK_EQ(x, 2);
    GOMP_offload_unregister_ver(VERSION, table, AMD, nothing);
    return pass();
}
