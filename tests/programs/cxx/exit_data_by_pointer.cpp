// `exit data` in a class, with the name of a member, and with a reference to a pointer: the array is meant (2.6.6).
// EXPECT device-memory
#include "check.h"

template <class T> class vector {
public:
    vector(int n) : n(n), data(new T[n]())
    {
#pragma acc enter data copyin(this[0:1])
#pragma acc enter data copyin(data[0:n])
    }
    ~vector()
    {
#pragma acc exit data copyout(data)
        CHECK(!acc_is_present(data, n * sizeof(T)));
        CHECK(acc_is_present(this, sizeof *this));
        CHECK_EQ(data[n - 1], n);
#pragma acc exit data delete(this[0:1])
        CHECK(!acc_is_present(this, sizeof *this));
        delete[] data;
    }
    void count()
    {
#pragma acc parallel loop present(this[0:1])
        for (int i = 0; i < n; i++)
            data[i] += i + 1;
    }

private:
    int n;
    T *data;
};

static void by_reference(int *&p)
{
#pragma acc exit data copyout(p)
}

int main()
{
    for (int k = 0; k < 3; k++) {
        vector<double> x(50 + k);
        vector<int> y(60);
        x.count();
        y.count();
    }
    int *p = new int[10]();
#pragma acc enter data copyin(p[0:10])
#pragma acc parallel loop present(p[0:10])
    for (int i = 0; i < 10; i++)
        p[i] = i;
    by_reference(p);
    CHECK_EQ(p[9], 9);
    CHECK(!acc_is_present(p, 40));
    return pass();
}
