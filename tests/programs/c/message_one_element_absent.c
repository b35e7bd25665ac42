// After `enter data copyin(a[n])` the array is not present: the message names the nearest data, and asks whether the array was meant.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/a \(message_one_element_absent\.c:\d+, main\) is not present on dev\d.*nearest present data: 8 bytes at 0x[0-9a-f]+ to 0x[0-9a-f]+ \[acc_error_not_present\]; that is one element, did you mean \[0:N\]\?/
#include "check.h"

int main(void)
{
    int n = 1000;
    double *a = calloc(n + 1, sizeof *a);
#pragma acc enter data copyin(a[n])
#pragma acc parallel loop present(a[0:n])
    for (int i = 0; i < n; i++)
        a[i] += 7;
    printf("%g\n", a[0]);
    return 0;
}
