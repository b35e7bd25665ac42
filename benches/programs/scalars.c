/* What scalars of a synchronous `kernels` region cost: GCC maps each to be copied both ways.
 *
 * Blocks of regions with 15 scalars, which are local variables and not neighbours, alternate with blocks of the same with 1. Each
 * sample is the time of one region in its block, in us. Each line of output is one JSON object: {"name":..,"unit":..,"samples":[..]}.
 *
 * Usage: scalars DEVICE BLOCKS REGIONS
 */
#define _GNU_SOURCE
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static double many(double *a, int n) {
  char g0[64]; double b = 1; char g1[64]; double c = 1; char g2[64]; double d = 1; char g3[64]; double e = 1; char g4[64];
  double f = 1; char g5[64]; double g = 1; char g6[64]; double h = 1; char g7[64]; double i = 1; char g8[64];
  double j = 1; char g9[64]; double k = 1; char g10[64]; double l = 1; char g11[64]; double m = 1; char g12[64];
  double o = 1; char g13[64]; double p = 1; char g14[64]; double q = 1;
  __asm__ volatile("" : : "r"(g0), "r"(g1), "r"(g2), "r"(g3), "r"(g4), "r"(g5) : "memory");
  __asm__ volatile("" : : "r"(g6), "r"(g7), "r"(g8), "r"(g9), "r"(g10), "r"(g11) : "memory");
  __asm__ volatile("" : : "r"(g12), "r"(g13), "r"(g14), "r"(&b), "r"(&q), "r"(&h) : "memory");
#pragma acc kernels present(a[0:n])
  {
    a[0] += b + c + d + e + f + g + h + i + j + k + l + m + o + p + q;
  }
  return b + c + d + e + f + g + h + i + j + k + l + m + o + p + q;
}

static double one(double *a, int n) {
  double b = 15;
  __asm__ volatile("" : : "r"(&b) : "memory");
#pragma acc kernels present(a[0:n])
  {
    a[0] += b;
  }
  return b;
}

static void print(const char *name, const double *samples, int count) {
  printf("{\"name\":\"%s\",\"unit\":\"us\",\"samples\":[", name);
  for (int s = 0; s < count; s++) printf("%s%.3f", s ? "," : "", samples[s]);
  printf("]}\n");
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  int device = atoi(argv[1]), blocks = atoi(argv[2]), regions = atoi(argv[3]);
  double a[100] = {0}, *times[2], sum = 0;
  acc_set_device_num(device, acc_get_device_type());
  times[0] = calloc((size_t)blocks, sizeof(double));
  times[1] = calloc((size_t)blocks, sizeof(double));
#pragma acc enter data copyin(a)
  for (int r = 0; r < regions; r++) sum += many(a, 100) + one(a, 100);
  for (int s = 0; s < blocks; s++)
    for (int kind = 0; kind < 2; kind++) {
      double begin = now_us();
      for (int r = 0; r < regions; r++) sum += kind ? many(a, 100) : one(a, 100);
      times[kind][s] = (now_us() - begin) / regions;
    }
#pragma acc exit data copyout(a)
  double want = 30.0 * regions * (blocks + 1);
  if (a[0] != want || sum != want) {
    fprintf(stderr, "a[0] is %g, the scalars' sum %g, expected %g\n", a[0], sum, want);
    return 1;
  }
  print("one", times[0], blocks);
  print("fifteen", times[1], blocks);
  return 0;
}
