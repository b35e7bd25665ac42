// A structure is copied with a pointer in it, and nothing is attached: the message names the member that the region has followed.
// EXPECT device-memory
// EXPECT exit=1
// EXPECT stderr=/mesh.* was copied as an address, without what is there/
// EXPECT stderr=/enter data copyin\(s\.p\[0:n\]\) after s/
#include "check.h"

struct mesh {
    int cells;
    double *heights;
};

static struct mesh mesh;

int main(void)
{
    mesh.cells = 1000;
    mesh.heights = calloc(1000, sizeof *mesh.heights);
#pragma acc data copy(mesh)
    {
#pragma acc parallel loop present(mesh)
        for (int i = 0; i < 1000; i++)
            mesh.heights[i] = i;
    }
    printf("FAIL: the region came back %f\n", mesh.heights[999]);
    return 0;
}
