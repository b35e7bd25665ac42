// A pointer without a clause: the message names it, also where its caller has it in no place any more, with one remedy.
// BUILD flags=-g
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/region main\._omp_fn\.0 .* (ended with|failed:) .*it was given pointers that nothing maps: b \(message_missing_clause\.c:11(, main)?\) \[acc_error_execution\]; write a data clause with the length, as copy\(a\[0:n\]\), or set ACCORD_UNMAPPED=map\n/
#include "check.h"

int main(void)
{
    int n = 1000;
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    double s = 0;
    for (int i = 0; i < n; i++)
        a[i] = b[i] = i;
#pragma acc parallel loop copyin(a[0:n]) reduction(+:s)
    for (int i = 0; i < n; i++)
        s += a[i] * b[i];
    printf("%g\n", s);
    return 0;
}
