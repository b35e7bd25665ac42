// `copy(a[n])` names one element. A region that uses the array then leaves it, and the message asks whether the array was meant.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/a clause names 8 bytes at a \(message_one_element\.c:\d+, main\) \[acc_error_execution\]; that is one element, did you mean \[0:N\]\?/
#include "check.h"

int main(void)
{
    int n = 1000;
    double *a = calloc(n + 1, sizeof *a);
#pragma acc parallel loop copy(a[n])
    for (int i = 0; i < n; i++)
        a[i] += 7;
    printf("%g\n", a[0]);
    return 0;
}
