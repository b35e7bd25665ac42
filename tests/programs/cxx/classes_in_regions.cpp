// Objects with virtual functions that a region makes work there: calls, dynamic_cast and typeid.
// BUILD offload=no
#include "check.h"
#include <typeinfo>

struct Shape {
    virtual double area() const { return side; }
    virtual ~Shape() {}
    double side = 3;
};

struct Square : Shape {
    double area() const override { return side * side; }
};

static const Shape *hide(const Shape *shape)
{
    __asm__ volatile("" : "+r"(shape));
    return shape;
}

int main()
{
    double area = 0;
    int square = 0, other = 1, same = 0;
#pragma acc parallel copy(area, square, other, same)
    {
        Square own;
        Shape plain;
        const Shape *shape = hide(&own);
        area = shape->area();
        square = dynamic_cast<const Square *>(shape) != nullptr;
        other = dynamic_cast<const Square *>(hide(&plain)) != nullptr;
        same = typeid(*shape) == typeid(Square);
    }
    CHECK_EQ(area, 9);
    CHECK_EQ(square, 1);
    CHECK_EQ(other, 0);
    CHECK_EQ(same, 1);
    return pass();
}
