// kernels: what a loop directive makes private is not the source's variable, which keeps its value (2.9.10); other scalars have their last one.
#include "check.h"

static double from[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, to[10], of_file = 5;

/* What ranges overlap, runs in order. */
static double ahead(double *to, double *from, int n, double x)
{
    int i = 77, j = 88;
#pragma acc kernels present(to[0:n], from[0:n])
    {
#pragma acc loop private(x)
        for (i = 0; i < n; i++) {
            double sum = 0;
            x = from[i];
#pragma acc loop seq private(x)
            for (j = 0; j < 4; j++) {
                x = j;
                sum += x;
            }
            to[i] = sum + x;
        }
    }
    return x * 10000 + i * 100 + j;
}

static void clauses(void)
{
    double x = 5, y = 6, seen[2], table[4] = {1, 2, 3, 4};
    struct {
        double value;
        int place;
    } both = {3, 4};
    int i = 77;
#pragma acc kernels copyin(from) copyout(to, seen)
    {
#pragma acc loop independent private(x)
        for (i = 0; i < 10; i++) {
            x = from[i] * 2;
            to[i] = x;
        }
        seen[0] = x;
        seen[1] = i;
    }
    CHECK_EQ(x, 5);
    CHECK_EQ(i, 77);
    CHECK_EQ(seen[0], 5);
    CHECK_EQ(seen[1], 77);
    CHECK_EQ(to[9], 20);
#pragma acc kernels loop private(x) copyin(from) copyout(to)
    for (i = 1; i < 10; i++) {
        x = from[i] * 3;
        y = x + 1;
        to[i] = y;
    }
    CHECK_EQ(x, 5);
    CHECK_EQ(y, 31);
    CHECK_EQ(i, 77);
    CHECK_EQ(to[9], 31);
#pragma acc kernels copyin(from) copy(to) async(1)
    {
#pragma acc loop independent private(x, of_file)
        for (i = 1; i < 10; i++)
            if (from[i] > 3) {
                x = from[i] * 2;
                of_file = x;
                to[i] = of_file;
            }
    }
#pragma acc wait(1)
    CHECK_EQ(x, 5);
    CHECK_EQ(of_file, 5);
    CHECK_EQ(to[1] + to[9], 7 + 20);
#pragma acc kernels copyin(from) copyout(to)
    {
#pragma acc loop independent private(table)
        for (i = 0; i < 10; i++) {
            for (int j = 0; j < 4; j++)
                table[j] = from[i] * j;
            to[i] = table[0] + table[1] + table[2] + table[3];
        }
#pragma acc loop independent private(both)
        for (i = 0; i < 10; i++) {
            both.value = from[i];
            both.place = i;
            to[i] += both.value * both.place;
        }
    }
    CHECK_EQ(table[0] + table[3], 5);
    CHECK_EQ(both.value + both.place, 7);
    CHECK_EQ(to[9], 60 + 90);
}

static void loops_around_and_inside(void)
{
    double x = 5, rows[4][5];
    int i = 77, j = 88;
#pragma acc kernels copyout(rows)
    {
#pragma acc loop independent collapse(2) private(x)
        for (i = 0; i < 4; i++)
            for (j = 0; j < 5; j++) {
                x = i * j;
                rows[i][j] = x;
            }
    }
    CHECK_EQ(x * 10000 + i * 100 + j, 57788);
    CHECK_EQ(rows[3][4], 12);
#pragma acc kernels copyin(from) copyout(to)
    {
#pragma acc loop independent
        for (i = 0; i < 10; i++) {
            double sum = 0;
            x = 3;
#pragma acc loop private(x) reduction(+ : sum)
            for (j = 0; j < 10; j++) {
                x = from[j] * from[i];
                sum += x;
            }
            to[i] = x + sum;
        }
    }
    CHECK_EQ(x * 10000 + i * 100 + j, 37788);
    CHECK_EQ(to[9], 553);
    x = 5;
#pragma acc kernels copyin(from) copy(to)
    {
#pragma acc loop seq private(x)
        for (j = 0; j < 3; j++) {
            x = j * 2;
            if (x > 1) {
                x = x + 1;
#pragma acc loop independent private(x)
                for (i = 0; i < 10; i++) {
                    x = from[i] + j;
                    to[i] += x;
                }
            }
#pragma acc loop independent
            for (i = 0; i < 10; i++)
                to[i] += x;
        }
        x = x + 2;
#pragma acc loop seq
        for (j = 9; j < 3; j++)
            to[j] = 0;
    }
    CHECK_EQ(x * 10000 + i * 100 + j, 77788);
    CHECK_EQ(to[9], 553 + 23 + 8);
    x = 5;
#pragma acc kernels copyin(from) copy(to)
    {
#pragma acc loop seq private(x)
        for (j = 0; j < 3; j++) {
            x = from[j] * 2;
#pragma acc loop independent
            for (i = 0; i < 10; i++)
                to[i] = x + from[i];
        }
#pragma acc loop private(x)
        for (i = 1; i < 10; i++) {
            x = to[i - 1] + 1;
            to[i] = x;
        }
    }
    CHECK_EQ(x * 10000 + i * 100 + j, 57788);
    CHECK_EQ(to[9], 16);
#pragma acc kernels copy(to)
    {
        for (i = 1; i < 10; i++)
            to[i] = to[i - 1] + 1;
#pragma acc loop seq
        for (i = 1; i < 4; i++) {
#pragma acc loop independent
            for (j = 0; j < 10; j++)
                to[j] += i;
        }
    }
    CHECK_EQ(i * 100 + j, 1088);
    CHECK_EQ(to[9] - to[0], 9);
    CHECK_EQ(to[0], 7 + 6);
}

static void mapped(void)
{
    double x = 5;
    int i = 77;
#pragma acc data copy(x)
    {
#pragma acc kernels loop independent private(x) copyin(from) copyout(to)
        for (i = 0; i < 10; i++) {
            x = from[i] * 2;
            to[i] = x;
        }
    }
    CHECK_EQ(x, 5);
    CHECK_EQ(to[9], 20);
#pragma acc kernels copyin(from) copyout(to) copy(x)
    {
#pragma acc loop independent private(x)
        for (i = 0; i < 10; i++) {
            x = from[i] * 3;
            to[i] = x;
        }
        x = x + 1;
    }
    CHECK_EQ(x, 6);
    CHECK_EQ(to[9], 30);
    CHECK_EQ(i, 77);
}

int main(void)
{
    double all[20];
    for (int distance = 1; distance <= 10; distance += 9) {
        for (int i = 0; i < 20; i++)
            all[i] = i;
        double left;
#pragma acc data copy(all)
        left = ahead(all + distance, all, 10, 5);
        CHECK_EQ(left, 57788);
        CHECK_EQ(all[distance + 9], distance == 1 ? 60 : 6 + 9);
    }
    clauses();
    loops_around_and_inside();
    mapped();
    return pass();
}
