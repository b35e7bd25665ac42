// A C++ program under a profiling library in C (5.3.3); tests/prof.rs looks at what that prints.
// BUILD flags=-g
// BUILD plugin=proftrace.c
// RUN env=ACC_PROFLIB={plugin}
#include "check.h"
#include <vector>

struct Field {
    std::vector<double> cells = std::vector<double>(1000, 1.0);

    void step()
    {
        double *values = cells.data();
        int n = (int)cells.size();
#pragma acc parallel loop copy(values[0:n])
        for (int i = 0; i < n; i++)
            values[i] += 2;
    }
};

int main()
{
    Field field;
    field.step();
    for (double cell : field.cells)
        CHECK_EQ(cell, 3);
    return pass();
}
