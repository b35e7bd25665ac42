/* kernels constructs of C++, for accord c++: what is promised runs in parallel in templates, classes, lambdas and macros. */
#include "../support/check.h"
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace grid {
constexpr int WIDTH = 6;
#pragma acc routine seq
inline double twice(double x) { return 2 * x; }
#pragma acc routine seq
template <class T> T add(const T &x, T y) { return x + y; }
}

/* A type parameter: temporaries of its type are the iteration's own. */
template <class T> static void axpy(T *y, const T *x, T a, std::size_t n)
{
    T t = 0;
#pragma acc kernels copy(y[0:n]) copyin(x[0:n])
    {
#pragma acc loop independent
        for (std::size_t i = 0; i < n; ++i) {
            t = a * x[i];
            y[i] += t;
        }
#pragma acc loop independent
        for (auto i = 0; i < 3; ++i)
            y[i] = grid::twice(y[i]);
    }
}

template <int N> struct Stencil {
    double cells[N * N];
    double result[N * N];

    void smooth(double weight)
    {
#pragma acc kernels copyin(cells) copyout(result)
        {
#pragma acc loop independent
            for (int i = 0; i < N; i++) {
#pragma acc loop independent
                for (int j = 0; j < N; j++)
                    result[i * N + j] = weight * (cells[i * N + j] + cells[i * N + (j + 1) % N]);
            }
        }
    }
};

struct Field {
    std::vector<double> values;
    explicit Field(int n) : values(n, 1.0) {}
    void scale(double factor);
};

/* The names of members that are also variables of the file mean the members. */
void Field::scale(double factor)
{
    double *v = values.data();
    const int n = static_cast<int>(values.size());
#pragma acc kernels loop independent copy(v[0:n])
    for (int i = 0; i < n; i++)
        v[i] *= factor;
}

/* A sum over a reference, bounds and factors by reference, the greatest element. */
static void total(double *a, const int &n, const double &factor, double &sum, double &most)
{
    double largest = -1;
    sum = 5;
#pragma acc kernels loop independent copy(a[0:n]) reduction(+:sum)
    for (int i = 0; i < n; i++) {
        a[i] *= factor;
        sum += a[i];
    }
#pragma acc kernels loop independent copyin(a[0:n])
    for (int i = 0; i < n; i++)
        largest = std::max(largest, std::fabs(a[i]));
    most = largest;
}

/* A reference that each iteration stores to belongs to none of them. */
static void last_of(const double *a, int n, double &last, double *b)
{
#pragma acc kernels loop independent copyin(a[0:n]) copyout(b[0:n]) copy(last)
    for (int i = 0; i < n; i++) {
        last = a[i];
        b[i] = last;
    }
}

static double filled[20];
#define FILL(n, value)                                                                                                 \
    do {                                                                                                               \
        _Pragma("acc kernels loop independent") for (int i_ = 0; i_ < (n); i_++) filled[i_] = (value);                 \
    } while (0)

int main()
{
    std::vector<float> x(40, 2.0f), y(40, 1.0f);
    axpy(y.data(), x.data(), 3.0f, x.size());
    CHECK_EQ(y[0], 14);
    CHECK_EQ(y[39], 7);
    std::vector<long> k(40, 2), l(40, 1);
    axpy(l.data(), k.data(), 5L, k.size());
    CHECK_EQ(l[2], 22);

    static Stencil<grid::WIDTH> stencil;
    for (int i = 0; i < grid::WIDTH * grid::WIDTH; i++)
        stencil.cells[i] = i;
    stencil.smooth(2.0);
    CHECK_EQ(stencil.result[7], 2 * (7 + 8));
    CHECK_EQ(stencil.result[11], 2 * (11 + 6));

    Field field(30);
    field.scale(4);
    CHECK_ALL(field.values, 30, 4);

    double a[20], b[20], sum, most, last = 0;
    for (int i = 0; i < 20; i++)
        a[i] = i;
    total(a, 20, 3, sum, most);
    CHECK_EQ(sum, 5 + 3 * 190);
    CHECK_EQ(most, 57);
    last_of(a, 20, last, b);
    CHECK_EQ(last, 57);
    CHECK_EQ(b[19], 57);

    auto shifted = [&](double *to, int n, double by) {
#pragma acc kernels loop independent copy(to[0:n])
        for (int i = 0; i < n; i++)
            to[i] = grid::add(to[i], by);
    };
    shifted(a, 20, 1);
    CHECK_EQ(a[3], 10);

    FILL(20, 7);
    CHECK_ALL(filled, 20, 7);

    /* Not promised. */
    double c[8] = {1, 2, 3, 4, 5, 6, 7, 8};
#pragma acc kernels copy(c)
    for (int i = 1; i < 8; i++)
        c[i] += c[i - 1];
    CHECK_EQ(c[7], 36);
#pragma acc kernels copy(c)
    for (double &value : c)
        value = -value;
    CHECK_EQ(c[7], -36);

    /* What a directive makes private is not the function's variable, which keeps its value. */
    int i = 77, j = 88;
    double t = 5, own[2] = {1, 2};
#pragma acc kernels copy(c)
    {
#pragma acc loop independent private(t, own)
        for (i = 0; i < 8; i++) {
            t = c[i];
            own[0] = t;
            own[1] = t;
            c[i] = own[0] + own[1] + t;
        }
#pragma acc loop seq private(t)
        for (j = 0; j < 2; j++) {
            t = j;
#pragma acc loop independent
            for (i = 0; i < 8; i++)
                c[i] += t;
        }
    }
    CHECK_EQ(t * 10000 + i * 100 + j, 57788);
    CHECK_EQ(own[0] + own[1], 3);
    CHECK_EQ(c[7], -107);
    return pass();
}
