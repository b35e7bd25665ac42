// A member that is present by itself, and an array of the same object that a construct brings: the region has one pointer to
// the object for both, and the object is not there.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/not present together with the object's other members.*map the whole object before its members/
#include "check.h"

struct field {
    int n;
    double *x;
    double scale;
};

int main(void)
{
    struct field *p = malloc(sizeof *p);
    *p = (struct field){40, calloc(40, 8), 3};
#pragma acc enter data copyin(p->scale)
#pragma acc parallel loop copy(p->x[0:40]) present(p->scale)
    for (int i = 0; i < 40; i++)
        p->x[i] += p->scale;
    printf("FAIL %g\n", p->x[3]);
    return 0;
}
