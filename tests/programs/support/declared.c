/* A shared object with declare variables that meet, for declare_neighbours. */
int left[3001] = {1}, right[3001] = {2};
static char tail[8193];
extern int between[2001];
int between[2001];
#pragma acc declare copyin(left, right) create(tail, between)

int declared(void)
{
    int bad = 0;
#pragma acc parallel loop
    for (int i = 0; i < 3001; i++) {
        left[i] += i;
        right[i] -= i;
    }
#pragma acc parallel loop
    for (int i = 0; i < 8193; i++) {
        tail[i] = (char)i;
        if (i < 2001)
            between[i] = i;
    }
#pragma acc update self(left[0:3001], right[0:3001], tail[0:8193], between[0:2001])
    for (int i = 0; i < 3001; i++)
        bad += left[i] != i + (i == 0) || right[i] != (i == 0 ? 2 : 0) - i;
    for (int i = 0; i < 8193; i++)
        bad += tail[i] != (char)i || (i < 2001 && between[i] != i);
    return bad;
}
