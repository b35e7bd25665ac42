// An array of structs with a pointer each, and a list of structs: copied and attached piece by piece (2.6.4).
#include "check.h"

struct row { int n; double *v; };
struct link { int value; struct link *next; };

int main(void)
{
    enum { ROWS = 20 };
    struct row *rows = malloc(ROWS * sizeof *rows);
    for (int r = 0; r < ROWS; r++) {
        rows[r].n = r + 1;
        rows[r].v = malloc((r + 1) * sizeof(double));
        for (int i = 0; i <= r; i++)
            rows[r].v[i] = i;
    }
#pragma acc enter data copyin(rows[0:ROWS])
    for (int r = 0; r < ROWS; r++) {
        double *host = rows[r].v;
#pragma acc enter data copyin(rows[r].v[0:rows[r].n])
        CHECK(rows[r].v == host);
    }
#pragma acc parallel loop present(rows[0:ROWS])
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < rows[r].n; i++)
            rows[r].v[i] += 100 * r;
    for (int r = 0; r < ROWS; r++) {
#pragma acc exit data copyout(rows[r].v[0:rows[r].n])
    }
#pragma acc exit data delete(rows[0:ROWS])
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i <= r; i++)
            CHECK_EQ(rows[r].v[i], i + 100 * r);

    struct link links[5];
    for (int i = 0; i < 5; i++) {
        links[i].value = i + 1;
        links[i].next = i < 4 ? &links[i + 1] : NULL;
    }
    int sum = 0;
    for (int i = 0; i < 5; i++)
        acc_copyin(&links[i], sizeof links[i]);
    for (int i = 0; i < 4; i++)
        acc_attach((void **)&links[i].next);
    struct link *head = links;
#pragma acc parallel copyout(sum) present(head[0:1])
    {
        sum = 0;
        for (struct link *at = head; at; at = at->next)
            sum += at->value;
    }
    CHECK_EQ(sum, 15);
    for (int i = 0; i < 5; i++)
        acc_delete_finalize(&links[i], sizeof links[i]);
    return pass();
}
