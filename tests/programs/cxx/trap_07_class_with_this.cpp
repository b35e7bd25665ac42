// A class whose constructor enters its own data: the attach comes before the entry of the object that holds the pointer.
// EXPECT device-memory
// BUILD core
#include "check.h"

class Vec {
  public:
    explicit Vec(int n) : n(n), d(new double[n])
    {
        for (int i = 0; i < n; i++)
            d[i] = i;
#pragma acc enter data copyin(this[0:1]) create(d[0:n])
#pragma acc update device(d[0:n])
    }
    ~Vec()
    {
#pragma acc exit data delete(d[0:n])
#pragma acc exit data delete(this[0:1])
        delete[] d;
    }
    Vec(const Vec &) = delete;
    Vec &operator=(const Vec &) = delete;

    void scale(double k)
    {
#pragma acc parallel loop present(this[0:1], d[0:n])
        for (int i = 0; i < n; i++)
            d[i] *= k;
    }
    void home()
    {
#pragma acc update self(d[0:n])
    }
    int n;
    double *d;
};

int main()
{
    Vec a(100), b(50);
    double *home = a.d;
    a.scale(2);
    b.scale(3);
    a.scale(2);
    CHECK_EQ(a.d[10], WANT(10, 40));
    a.home();
    b.home();
    CHECK(a.d == home);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(a.d[i], 4 * i);
    for (int i = 0; i < 50; i++)
        CHECK_EQ(b.d[i], 3 * i);
    return pass();
}
