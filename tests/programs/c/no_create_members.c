// `no_create` of what is absent: whole variables, members of present and absent objects, and pointers whose target is
// absent. The region runs, absent data stays absent, and present data beside it is used (2.7.10).
// EXPECT device-memory
#include "check.h"

struct field {
    int *values;
    int *weights;
    int n;
};

/* 0: everything is absent; else what was found. */
static int sum(struct field *f, int has_weights)
{
    int total = 0;
#pragma acc parallel loop reduction(+ : total) present(f[0:1]) no_create(f->values[0:f->n], f->weights[0:f->n])
    for (int i = 0; i < 8; i++)
        total += f->values[i] * (has_weights ? f->weights[i] : 1);
    return total;
}

int main(void)
{
    static int values[8], weights[8], absent[64];
    static struct field f, nowhere;
    f.values = values;
    f.weights = weights;
    f.n = 8;
    nowhere = f;
    for (int i = 0; i < 8; i++) {
        values[i] = i;
        weights[i] = 2;
    }
    acc_copyin(values, sizeof values);
    acc_copyin(&f, sizeof f);
    CHECK_EQ(sum(&f, 0), 28); /* weights are absent */
    CHECK_EQ(acc_is_present(weights, sizeof weights), 0);
    acc_copyin(weights, sizeof weights);
    CHECK_EQ(sum(&f, 1), 56);
    acc_delete(weights, sizeof weights);
    CHECK_EQ(sum(&f, 0), 28);

    /* Nothing of the object is present. */
    int ran = 0, n = 8, *p = absent;
#pragma acc parallel no_create(nowhere, p[0:n]) copy(ran)
    ran++;
    CHECK_EQ(ran, 1);
    CHECK_EQ(acc_is_present(&nowhere, sizeof nowhere), 0);
    CHECK_EQ(acc_is_present(absent, sizeof absent), 0);
#pragma acc data no_create(absent[0:10], nowhere) copy(ran)
    {
        CHECK_EQ(acc_is_present(absent, 40), 0);
#pragma acc parallel present(ran)
        ran++;
    }
    CHECK_EQ(ran, 2);
    acc_delete(&f, sizeof f);
    acc_delete(values, sizeof values);
    return pass();
}
