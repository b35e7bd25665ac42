/* The chapter's picture on one device and on two, in turn. Usage: mandelbrot SIZE ROUNDS */
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma acc routine seq
static unsigned char pixel(int px, int py, int size) {
  double x0 = -2.25 + 3.0 * px / size, y0 = -1.5 + 3.0 * py / size, x = 0, y = 0;
  int i = 0;
  for (; i < 255 && x * x + y * y < 4; i++) {
    double t = x * x - y * y + x0;
    y = 2 * x * y + y0;
    x = t;
  }
  return i;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static double draw(unsigned char *image, int size, int devices) {
  int blocks = 32, rows = size / blocks;
  double start = now();
  for (int block = 0; block < blocks; block++) {
    int first = block * rows;
    acc_set_device_num(block % devices, acc_device_not_host);
#pragma acc parallel loop present(image[0:size * size]) async(0)
    for (int y = first; y < first + rows; y++)
      for (int x = 0; x < size; x++) image[y * size + x] = pixel(x, y, size);
#pragma acc update self(image[first * size:rows * size]) async(0)
  }
  for (int device = 0; device < devices; device++) {
    acc_set_device_num(device, acc_device_not_host);
#pragma acc wait
  }
  return now() - start;
}

int main(int argc, char **argv) {
  int size = argc > 1 ? atoi(argv[1]) : 1536, rounds = argc > 2 ? atoi(argv[2]) : 9;
  if (size % 32 || rounds < 1 || rounds > 100) return 2;
  unsigned char *image = malloc((size_t)size * size), *first = malloc((size_t)size * size);
  double one[100], two[100];
  for (int device = 0; device < 2; device++) {
    acc_set_device_num(device, acc_device_not_host);
#pragma acc enter data create(image[0:size * size])
  }
  for (int round = -1; round < rounds; round++) {
    double a = draw(image, size, 1);
    memcpy(first, image, (size_t)size * size);
    memset(image, 0, (size_t)size * size);
    double b = draw(image, size, 2);
    if (memcmp(first, image, (size_t)size * size)) return fprintf(stderr, "the pictures differ\n"), 1;
    if (round >= 0) one[round] = a, two[round] = b;
  }
  printf("{\"name\":\"one_device\",\"unit\":\"s\",\"samples\":[");
  for (int i = 0; i < rounds; i++) printf("%s%.4g", i ? "," : "", one[i]);
  printf("]}\n{\"name\":\"two_devices\",\"unit\":\"s\",\"samples\":[");
  for (int i = 0; i < rounds; i++) printf("%s%.4g", i ? "," : "", two[i]);
  printf("]}\n");
  return 0;
}
