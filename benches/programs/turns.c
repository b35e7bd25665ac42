/* A session on a device that sessions share by turns: saturating or light. A region computes until it has done COUNT steps.
 *
 * turns calibrate MICROSECONDS          prints the steps of a region of this duration on an idle device
 * turns saturate COUNT                  keeps 4 to 8 regions in flight; prints `ended N TIME`, the regions ended so far and a clock in us,
 *                                       for each line of its input
 * turns light COUNT ROUNDS PAUSE        prints the times of a launch and its wait, in us, with pauses in us between rounds
 */
#define _GNU_SOURCE
#include <openacc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REGIONS = 1, MARKERS = 2, BATCH = 4, WARM = 3, ROUNDS = 9 };

static double value = 1;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void region(long count) {
#pragma acc parallel num_gangs(1) num_workers(1) vector_length(1) present(value) async(REGIONS)
  for (long k = 0; k < count; k++) value = value * 0.999999 + 1e-6;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Returns the median time of a region among some in a row, without a launch's overhead. */
static double time_of(long count) {
  double times[ROUNDS];
  for (int round = 0; round < ROUNDS; round++) {
    region(count);
    acc_wait(REGIONS);
    double begun = now_us();
    for (int i = 0; i < BATCH; i++) region(count);
    acc_wait(REGIONS);
    times[round] = (now_us() - begun) / BATCH;
  }
  qsort(times, ROUNDS, sizeof *times, by_size);
  return times[ROUNDS / 2];
}

static int calibrate(double us) {
  long count = 1000;
  for (int round = 0; round < 12; round++) {
    double took = time_of(count);
    if (took > us * 0.98 && took < us * 1.02) break;
    double factor = us / took;
    count = (long)(count * (factor > 8 ? 8 : factor)) + 1;
  }
  printf("%ld\n", count);
  return 0;
}

static int saturate(long count) {
  struct pollfd input = {.fd = 0, .events = POLLIN};
  long ended = 0;
  for (int batch = 0;; batch++) {
    /* The queue of the marker behind the batch before the last one. */
    int marker = MARKERS + batch % 2;
    acc_wait(marker);
    if (batch > 1) ended += BATCH;
    if (poll(&input, 1, 0) > 0) {
      char line[16];
      if (read(0, line, sizeof line) <= 0) break;
      printf("ended %ld %.0f\n", ended, now_us());
      fflush(stdout);
    }
    for (int i = 0; i < BATCH; i++) region(count);
    acc_wait_async(REGIONS, marker);
  }
  acc_wait_all();
  return 0;
}

static int light(long count, int rounds, unsigned pause) {
  double *times = calloc((size_t)rounds, sizeof *times);
  for (int round = -WARM; round < rounds; round++) {
    usleep(pause);
    double begun = now_us();
    region(count);
    acc_wait(REGIONS);
    if (round >= 0) times[round] = now_us() - begun;
  }
  printf("{\"name\":\"light\",\"unit\":\"us\",\"samples\":[");
  for (int round = 0; round < rounds; round++) printf("%s%.1f", round ? "," : "", times[round]);
  printf("]}\n");
  free(times);
  return 0;
}

int main(int argc, char **argv) {
  int result = 2;
#pragma acc enter data copyin(value)
  if (argc == 3 && !strcmp(argv[1], "calibrate")) result = calibrate(atof(argv[2]));
  if (argc == 3 && !strcmp(argv[1], "saturate")) result = saturate(atol(argv[2]));
  if (argc == 5 && !strcmp(argv[1], "light")) result = light(atol(argv[2]), atoi(argv[3]), (unsigned)atoi(argv[4]));
#pragma acc exit data delete(value)
  return result;
}
