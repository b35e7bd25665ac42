// Members of a class in the clauses of a method, and by local pointers where the object is not on the device.
#include "check.h"

struct Field {
    int n;
    float *u, *v;
    void swap_members()
    {
#pragma acc parallel loop present(this[0:1]) copy(u[0:n], v[0:n])
        for (int i = 0; i < n; i++) {
            float t = u[i];
            u[i] = v[i];
            v[i] = t + 1;
        }
    }
    void swap_locals()
    {
        float *a = u, *b = v;
        int count = n;
#pragma acc parallel loop copy(a[0:count], b[0:count])
        for (int i = 0; i < count; i++) {
            float t = a[i];
            a[i] = b[i];
            b[i] = t + 1;
        }
    }
};

int main()
{
    float u[40], v[40];
    for (int i = 0; i < 40; i++)
        u[i] = i, v[i] = -i;
    Field f = {40, u, v};
#pragma acc data copyin(f)
    f.swap_members();
    CHECK(f.u == u && f.v == v);
    for (int i = 0; i < 40; i++) {
        CHECK_EQ(u[i], -i);
        CHECK_EQ(v[i], i + 1);
    }
    f.swap_locals();
    for (int i = 0; i < 40; i++) {
        CHECK_EQ(u[i], i + 1);
        CHECK_EQ(v[i], 1 - i);
    }
    return pass();
}
