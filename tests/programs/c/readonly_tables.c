// Constants in clauses and regions that copy both ways: what is read-only in the program is not written.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define N 16
/* More than a copy that is read at once, and more than an event carries. */
#define MANY (1 << 16)

static const int table[N] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
static const double big[MANY] = {[0] = 1.5, [MANY - 1] = 2.5};
static const int one = 1;
static const char *const names[2] = {"first", "second"};

struct point {
    double x, y;
};
static const struct point corner = {1, 2};

static void clauses(void)
{
    int sum = 0, letters = 0;
    double ends = 0;
    const char *text = "read-only";
#pragma acc parallel copy(table, big, sum, ends) copy(text[0:9])
    {
        for (int i = 0; i < N; i++)
            sum += table[i];
        ends = big[0] + big[MANY - 1];
    }
    CHECK_EQ(sum, 80);
    CHECK_EQ(ends, 4);
#pragma acc parallel loop copy(text[0:9]) reduction(+:letters)
    for (int i = 0; i < 9; i++)
        letters += text[i] == 'r' || text[i] == 'e' || text[i] == 'o';
    CHECK_EQ(letters, 3);
}

static void kernels(const int *n)
{
    int out[N];
    double x = 0;
#pragma acc kernels copyout(out)
    for (int i = 0; i < N; i++)
        out[i] = table[i] + one;
    for (int i = 0; i < N; i++)
        CHECK_EQ(out[i], table[i] + 1);
#pragma acc kernels copy(n[0:1], corner, x)
    x = n[0] + corner.x + corner.y;
    CHECK_EQ(x, 4);
}

static void queues(void)
{
    int out[N];
    double ends = 0;
#pragma acc parallel loop copy(table) copyout(out) async(1)
    for (int i = 0; i < N; i++)
        out[i] = 2 * table[i];
#pragma acc parallel copy(big, ends) async(2)
    ends = big[0] + big[MANY - 1];
#pragma acc wait
    for (int i = 0; i < N; i++)
        CHECK_EQ(out[i], 2 * table[i]);
    CHECK_EQ(ends, 4);
}

static void data(void)
{
    int sum = 0;
#pragma acc data copy(table, big)
    {
#pragma acc parallel loop reduction(+:sum) present(table)
        for (int i = 0; i < N; i++)
            sum += table[i];
#pragma acc update self(table, big)
    }
    CHECK_EQ(sum, 80);
#pragma acc enter data copyin(table, big) async(1)
#pragma acc update self(table) async(1)
#pragma acc exit data copyout(table, big) async(1)
#pragma acc wait(1)
    acc_copyin((void *)names, sizeof names);
    acc_update_self((void *)names, sizeof names);
    acc_copyout((void *)names, sizeof names);
    CHECK(strcmp(names[1], "second") == 0);
}

static void mapped_file(int bytes)
{
    char name[] = "/tmp/accord-test-XXXXXX";
    int sum = 0, file = mkstemp(name);
    CHECK(file >= 0);
    unlink(name);
    char *fill = malloc((size_t)bytes);
    for (int i = 0; i < bytes; i++)
        fill[i] = (char)(i % 7);
    CHECK_EQ(write(file, fill, (size_t)bytes), bytes);
    for (int shared = 0; shared < 2; shared++) {
        char *view = mmap(NULL, (size_t)bytes, PROT_READ, shared ? MAP_SHARED : MAP_PRIVATE, file, 0);
        CHECK(view != MAP_FAILED);
        sum = 0;
#pragma acc parallel loop copy(view[0:bytes]) reduction(+:sum)
        for (int i = 0; i < bytes; i++)
            sum += view[i];
        int want = 0;
        for (int i = 0; i < bytes; i++)
            want += i % 7;
        CHECK_EQ(sum, want);
        sum = 0;
#pragma acc parallel loop copy(view[0:bytes], sum) reduction(+:sum) async
        for (int i = 0; i < bytes; i++)
            sum += view[i];
#pragma acc wait
        CHECK_EQ(sum, want);
        munmap(view, (size_t)bytes);
    }
    close(file);
    free(fill);
}

int main(void)
{
    static const int n = 1;
    clauses();
    kernels(&n);
    queues();
    data();
    mapped_file(1000);
    mapped_file(300000);
    return pass();
}
