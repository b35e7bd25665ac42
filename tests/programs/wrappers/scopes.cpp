// What update says of whole declare variables under the names that C++ has for them (2.14.4).
#include <cstdio>
#include <cstdlib>

#define CHECK(what) ((what) ? (void)0 : (printf("FAIL %s:%d: %s\n", __FILE__, __LINE__, #what), exit(1)))

namespace field {
double density[100];
int steps;
#pragma acc declare create(density, steps)

template <typename T> void bring(T by)
{
    steps = static_cast<int>(by);
#pragma acc update device(steps)
}
}

int main()
{
    for (double &one : field::density)
        one = 2;
#pragma acc update device(field::density, field::steps)
    field::bring(5.5);
#pragma acc parallel loop
    for (int i = 0; i < 100; i++)
        field::density[i] *= field::steps;
    CHECK(field::density[99] == 2);
#pragma acc update self(field::density)
    CHECK(field::density[99] == 10);
    {
        using namespace field;
        density[0] = 1;
#pragma acc update device(density[0:1], density[50:1])
#pragma acc update self(density)
        CHECK(density[0] == 1 && density[1] == 10);
    }
    puts("PASS");
}
