// Declare variables of C++ that share pages: of namespaces, of classes, with initial values and without (2.13).
#include "check.h"

namespace grid {
double u[2500], v[2500];
static float edge[1500];
struct Cell { int i; double x; };
Cell cells[777] = {{1, 2.5}};
#pragma acc declare create(u, v, edge) copyin(cells)
}

namespace {
constexpr double table[1024] = {1, 2, 3};
unsigned char flags[5003];
#pragma acc declare copyin(table) create(flags)
}

int main()
{
    using namespace grid;
#pragma acc parallel loop
    for (int i = 0; i < 2500; i++) {
        u[i] = i + table[i % 3];
        v[i] = -i;
    }
#pragma acc parallel loop
    for (int i = 0; i < 5003; i++)
        flags[i] = (unsigned char)(i % 251);
#pragma acc parallel loop
    for (int i = 0; i < 1500; i++)
        edge[i] = i;
#pragma acc parallel loop
    for (int i = 0; i < 777; i++)
        cells[i].i += i;
#pragma acc update self(u[0:2500], v[0:2500], flags[0:5003], edge[0:1500], cells[0:777])
    for (int i = 0; i < 2500; i++) {
        CHECK_EQ(u[i], i + 1 + i % 3);
        CHECK_EQ(v[i], -i);
    }
    for (int i = 0; i < 5003; i++)
        CHECK_EQ(flags[i], i % 251);
    for (int i = 0; i < 1500; i++)
        CHECK_EQ(edge[i], i);
    for (int i = 0; i < 777; i++) {
        CHECK_EQ(cells[i].i, i + (i == 0));
        CHECK_EQ(cells[i].x, i == 0 ? 2.5 : 0);
    }
    return pass();
}
