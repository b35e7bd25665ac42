// Members of a class in clauses, in methods, with this implied.
// EXPECT device-memory
#include "check.h"

struct Field {
    int n;
    float *u, *v;
    void step()
    {
#pragma acc parallel loop copy(u[0:n], v[0:n])
        for (int i = 0; i < n; i++) {
            float t = u[i];
            u[i] = v[i];
            v[i] = t + 1;
        }
    }
};

int main()
{
    float u[40], v[40];
    for (int i = 0; i < 40; i++)
        u[i] = i, v[i] = -i;
    Field f = {40, u, v};
    f.step();
    CHECK(f.u == u && f.v == v);
    for (int i = 0; i < 40; i++) {
        CHECK_EQ(u[i], -i);
        CHECK_EQ(v[i], i + 1);
    }
    f.step();
    for (int i = 0; i < 40; i++) {
        CHECK_EQ(u[i], i + 1);
        CHECK_EQ(v[i], 1 - i);
    }
    return pass();
}
