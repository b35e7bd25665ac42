// An exception that passes a data region: what comes after must still nest and work.
#include "check.h"
#include <stdexcept>

static int a[8], b[8];

static void risky(bool fail)
{
#pragma acc data copy(a)
    {
#pragma acc parallel loop present(a)
        for (int i = 0; i < 8; i++)
            a[i] += 1;
        if (fail)
            throw std::runtime_error("left");
    }
}

int main()
{
    bool caught = false;
#pragma acc data copy(b)
    {
#pragma acc parallel loop present(b)
        for (int i = 0; i < 8; i++)
            b[i] = i;
    }
    risky(false);
    try {
        risky(true);
    } catch (const std::runtime_error &) {
        caught = true;
    }
    CHECK(caught);
    for (int i = 0; i < 8; i++)
        b[i] += 100;
#pragma acc data copy(b)
    {
#pragma acc parallel loop present(b)
        for (int i = 0; i < 8; i++)
            b[i] += 1000;
    }
    for (int i = 0; i < 8; i++)
        CHECK_EQ(b[i], 1100 + i);
    return pass();
}
