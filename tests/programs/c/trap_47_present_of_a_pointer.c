// `present(t)` of a pointer asks for the pointer variable itself, which nobody mapped: the message must say what is absent.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_error_not_present/
#include "check.h"

int main(void)
{
    int *t = malloc(40);
#pragma acc enter data copyin(t[0:10])
#pragma acc parallel present(t)
    t[0] = 1;
    printf("FAIL: the region ran\n");
    return 0;
}
