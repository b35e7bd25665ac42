// A region calls a virtual function of an object that the program has made: the message names the class's table, the region and the line.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/area_of.*_omp_fn\.0 \(.*bad_virtual_function\.cpp:2[34], .*ended with SIGSEGV/
// EXPECT stderr=/in the program that is vtable for Square, which the device's process has at another address/
// EXPECT stderr=/make the object within the region/
// BUILD offload=no
#include "check.h"

struct Shape {
    virtual double area() const { return side; }
    virtual ~Shape() {}
    double side = 3;
};

struct Square : Shape {
    double area() const override { return side * side; }
};

static double area_of(const Shape *shape)
{
    double area = 0;
#pragma acc parallel copyin(shape[0:1]) copy(area)
    area = shape->area();
    return area;
}

int main()
{
    Square square;
    printf("FAIL: the region came back %g\n", area_of(&square));
    return 0;
}
