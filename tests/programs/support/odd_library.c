/* A library with a region. */
int add_one(int *values, int count)
{
    int wrong = 0;
#pragma acc parallel loop copy(values[0:count])
    for (int i = 0; i < count; i++)
        values[i]++;
    for (int i = 0; i < count; i++)
        wrong += values[i] != i + 1;
    return wrong;
}
