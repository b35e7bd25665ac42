// A block that a member of a structure points to is named by the way to it, through a pointer in a global.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/acc_copyout|acc_update_self/
// EXPECT stderr=/: mesh->cells \(message_member\.c:16\) is not present on dev\d/
// EXPECT stderr=/acc_error_not_present/
#include "check.h"

struct mesh {
    int n;
    struct {
        double *faces, *cells;
    };
};

struct mesh *mesh;

int main(void)
{
    mesh = calloc(1, sizeof *mesh);
    mesh->faces = calloc(100, sizeof(double));
    mesh->cells = calloc(100, sizeof(double));
    acc_update_self(mesh->cells + 20, 10 * sizeof(double));
    printf("FAIL: the update came back\n");
    return 0;
}
