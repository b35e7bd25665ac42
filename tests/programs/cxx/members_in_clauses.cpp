// Members of an object that is not on the device, in a method's clauses: GCC 12 passes `this` by value, and it has to lead to where
// the members are. GCC 12 takes no reference to an object there.
// BUILD core
#include "check.h"

struct Grid {
    int n = 5;
    double values[5] = {1, 2, 3, 4, 5};
    int sum = 0;
    double more[3] = {1, 1, 1};

    void array()
    {
#pragma acc parallel loop copy(values)
        for (int i = 0; i < 5; i++)
            values[i] += 1;
    }
    void section(int from)
    {
#pragma acc parallel loop copy(values[0:5])
        for (int i = from; i < 5; i++)
            values[i] += 1;
    }
    void scalar()
    {
#pragma acc parallel copy(sum)
        sum += 3;
    }
    void several()
    {
#pragma acc parallel copyin(n, values) copy(sum, more)
        for (int i = 0; i < n; i++) {
            sum += values[i];
            more[i % 3] += 1;
        }
    }
    void queued()
    {
#pragma acc parallel loop copy(values) async(1)
        for (int i = 0; i < 5; i++)
            values[i] *= 2;
#pragma acc parallel copy(values, sum) async(1)
        sum = values[4];
#pragma acc wait(1)
    }
    void serial()
    {
#pragma acc serial copyout(more)
        for (int i = 0; i < 3; i++)
            more[i] = i;
    }
};

int main()
{
    Grid grid, *heap = new Grid;
    for (int k = 0; k < 2; k++) {
        Grid *g = k ? heap : &grid;
        g->array();
        CHECK_EQ(g->values[0] + g->values[4], 8);
        g->section(2);
        CHECK_EQ(g->values[1], 3);
        CHECK_EQ(g->values[4], 7);
        g->scalar();
        CHECK_EQ(g->sum, 3);
        g->several();
        CHECK_EQ(g->sum, 3 + 2 + 3 + 5 + 6 + 7);
        CHECK_EQ(g->more[0] + g->more[1] + g->more[2], 8);
        g->queued();
        CHECK_EQ(g->sum, 14);
        CHECK_EQ(g->values[0], 4);
        g->serial();
        CHECK_EQ(g->more[2], 2);
        CHECK_EQ(g->n, 5);
    }
    delete heap;
    return pass();
}
