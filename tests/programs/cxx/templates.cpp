// Regions in function templates and in members of class templates, for several types.
#include "check.h"

template <typename T> static T sum(const T *p, int n)
{
    T total = 0;
#pragma acc parallel loop copyin(p[0:n]) reduction(+ : total)
    for (int i = 0; i < n; i++)
        total += p[i];
    return total;
}

template <typename T, int N> struct Box {
    T v[N];
    void fill(T k)
    {
        T *p = v;
#pragma acc parallel loop copyout(p[0:N])
        for (int i = 0; i < N; i++)
            p[i] = k * i;
    }
};

int main()
{
    int a[10];
    double b[20];
    long c[5];
    for (int i = 0; i < 10; i++)
        a[i] = i;
    for (int i = 0; i < 20; i++)
        b[i] = i * 0.5;
    for (int i = 0; i < 5; i++)
        c[i] = 1L << (40 + i);
    CHECK_EQ(sum(a, 10), 45);
    CHECK_EQ(sum(b, 20), 95);
    CHECK_EQ(sum(c, 5), 31.0 * (1L << 40));
    Box<float, 8> f;
    Box<short, 30> s;
    f.fill(1.5f);
    s.fill(3);
    CHECK_EQ(f.v[7], 10.5);
    CHECK_EQ(s.v[29], 87);
    return pass();
}
