/* What `malloc` and `free` take, for `accord-bench start`: blocks of pairs of 64 bytes, of many blocks at once, and of 64 KiB.
 *
 * Each sample is the time of a pair in its block, in ns. Each line of output is one JSON object: {"name":..,"unit":..,"samples":[..]}.
 *
 * Usage: malloc_pairs BLOCKS PAIRS
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MANY 64

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static void *volatile last;

static void pairs(size_t bytes, int pairs) {
  for (int i = 0; i < pairs; i++) {
    last = malloc(bytes);
    free(last);
  }
}

static void many(size_t bytes, int pairs) {
  void *held[MANY];
  for (int i = 0; i < pairs / MANY; i++) {
    for (int k = 0; k < MANY; k++)
      held[k] = malloc(bytes);
    for (int k = 0; k < MANY; k++)
      free(held[k]);
  }
}

static void measure(const char *name, void (*work)(size_t, int), size_t bytes, int blocks, int count) {
  printf("{\"name\":\"%s\",\"unit\":\"ns\",\"samples\":[", name);
  for (int i = 0; i < blocks; i++) {
    double begin = now_ns();
    work(bytes, count);
    printf("%s%.3f", i ? "," : "", (now_ns() - begin) / count);
  }
  printf("]}\n");
}

int main(int argc, char **argv) {
  if (argc < 3)
    return 1;
  int blocks = atoi(argv[1]), count = atoi(argv[2]);
  pairs(64, count);
  measure("64", pairs, 64, blocks, count);
  measure("64_held", many, 64, blocks, count);
  measure("65536", pairs, 65536, blocks, count);
  return 0;
}
