/* A process with one small region, for `accord-bench start`: what it takes until the region is done.
 *
 * Usage: start [none]     none: without the region.
 */
#include <openacc.h>
#include <string.h>

int main(int argc, char **argv) {
  int sum = 0;
  if (argc > 1 && !strcmp(argv[1], "none"))
    return 0;
#pragma acc parallel copy(sum)
  for (int i = 0; i < 10; i++)
    sum += i;
  return sum != 45;
}
