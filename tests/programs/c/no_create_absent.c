// `no_create` of absent data: the region has the program's address of it (2.7.10), also where that is used for nothing but its value.
#include "check.h"

int main(void)
{
    double *a = malloc(800), array[20], x = 0;
    size_t of_a = 0, of_array = 0, of_x = 0;
#pragma acc parallel no_create(a[0:100], array, x) copyout(of_a, of_array, of_x)
    {
        of_a = (size_t)a;
        of_array = (size_t)array;
        of_x = (size_t)&x;
    }
    CHECK(of_a == (size_t)a);
    CHECK(of_array == (size_t)array);
    CHECK(of_x == (size_t)&x);
#pragma acc data no_create(a[0:100])
    {
#pragma acc parallel no_create(a[10:20]) copyout(of_a)
        of_a = (size_t)&a[10];
    }
    CHECK(of_a == (size_t)&a[10]);
#pragma acc enter data create(a[0:100])
#pragma acc parallel no_create(a[0:100]) copyout(of_a)
    of_a = (size_t)a;
    CHECK(of_a == (size_t)acc_deviceptr(a));
#pragma acc exit data delete(a[0:100])
    return pass();
}
