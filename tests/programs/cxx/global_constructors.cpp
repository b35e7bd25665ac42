// Constructors of globals run once, in the program: a file that one opens is not truncated by a device, and their output appears once.
#include "check.h"
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <unistd.h>

static std::string name()
{
    char text[] = "/tmp/constructors-XXXXXX";
    const char *inherited = getenv("CHECK_FILE");
    if (inherited)
        return inherited;
    close(mkstemp(text));
    setenv("CHECK_FILE", text, 1);
    return text;
}

static std::ofstream results(name());

static struct Counter {
    int constructed;
    Counter() : constructed(1) { std::ofstream(std::string(getenv("CHECK_FILE")) + ".count", std::ios::app) << "x"; }
} counter;

int main()
{
    const int n = 100;
    static int a[n];
    const std::string path = getenv("CHECK_FILE");
    for (int row = 0; row < 5; row++)
        results << "row " << row << std::endl;
    int sum = 0;
#pragma acc parallel loop copy(a) reduction(+ : sum)
    for (int i = 0; i < n; i++) {
        a[i] += i;
        sum += a[i];
    }
    results << "sum " << sum << std::endl;
    std::ifstream in(path), count(path + ".count");
    const std::string text((std::istreambuf_iterator<char>(in)), {}), times((std::istreambuf_iterator<char>(count)), {});
    unlink(path.c_str());
    unlink((path + ".count").c_str());
    CHECK(text == "row 0\nrow 1\nrow 2\nrow 3\nrow 4\nsum 4950\n");
    CHECK_EQ(times.size(), 1);
    CHECK_EQ(counter.constructed, 1);
    return pass();
}
