// A region catches what it throws itself, and what functions that it calls throw: the compiler's type information is the device's own.
// BUILD offload=no
#include "check.h"
#include <stdexcept>
#include <string>
#include <typeinfo>

struct Wrong {
    int value;
};

struct Worse : Wrong {
};

static int checked(int x)
{
    if (x > 2)
        throw Wrong{x};
    return x;
}

int main()
{
    int plain = 0, called = 0, derived = 0, again = 0, standard = 0;
#pragma acc parallel copy(plain, called, derived, again, standard)
    {
        try {
            throw Wrong{5};
        } catch (const Wrong &wrong) {
            plain = wrong.value;
        }
        try {
            called = checked(1);
            called += checked(7);
        } catch (const Wrong &wrong) {
            called += 10 * wrong.value;
        }
        try {
            Worse worse;
            worse.value = 3;
            throw worse;
        } catch (const Wrong &wrong) {
            derived = wrong.value;
        }
        try {
            try {
                throw 4;
            } catch (int) {
                throw;
            }
        } catch (int value) {
            again = value;
        }
        try {
            throw std::runtime_error("text");
        } catch (const std::exception &error) {
            standard = error.what()[1];
        }
    }
    CHECK_EQ(plain, 5);
    CHECK_EQ(called, 71);
    CHECK_EQ(derived, 3);
    CHECK_EQ(again, 4);
    CHECK_EQ(standard, 'e');
    return pass();
}
