// Implicit attributes: aggregates `copy`, scalars `firstprivate`, pointers present-or-as-they-are (2.6.2).
#include "check.h"

int main(void)
{
    int a[10] = {0}, scale = 3, n = 10;
    struct pair { int x, y; } pair = {1, 2};
    int *p = malloc(n * sizeof *p);
    for (int i = 0; i < n; i++)
        p[i] = i;
#pragma acc data copy(p[0:n])
    {
#pragma acc parallel loop
        for (int i = 0; i < n; i++) {
            a[i] = p[i] * scale;
            p[i] = -p[i];
        }
#pragma acc parallel
        {
            pair.x += 10;
            pair.y += 20;
        }
    }
    for (int i = 0; i < n; i++) {
        CHECK_EQ(a[i], 3 * i);
        CHECK_EQ(p[i], -i);
    }
    CHECK_EQ(pair.x, 11);
    CHECK_EQ(pair.y, 22);
    free(p);
    return pass();
}
