/* A Mandelbrot set on each device alone, and on all together, by turns: how much of the devices' own rates a program gets over hosts that are
 * apart. A host thread for each device takes the next block of rows as soon as one has come home, and keeps DEPTH of them on their way:
 * regions in one queue, one after the other, and copies home in queues of their own, each behind its region.
 *
 * Devices of one machine would share its cores. So a device here is slower than a core: a region takes NS for each iteration, computes, and sleeps
 * for the rest, row by row. What it does not do in time it never makes up for in a later region. With NS 0 it is as fast as it can.
 *
 * Each line of output is one JSON object: {"name":..,"unit":..,"samples":[..]}.
 * gcc -O2 -fopenacc -foffload=disable mandelbrot_apart.c -lm
 * Usage: mandelbrot_apart SIZE BLOCKS ROUNDS NS DEPTH */
#define _GNU_SOURCE
#include <openacc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEVICES_MAX = 64, DEPTH_MAX = 16, ROUNDS_MAX = 100, ITERATIONS = 255, REGIONS = 0, COPIES = 1 };

static int size, blocks, rounds, ns_each, depth;
static unsigned char *image;

/* What a region says of itself. */
struct told { double begun, ended, planned, computed; };
static struct told *told;

#pragma acc routine(clock_gettime) seq
#pragma acc routine(clock_nanosleep) seq

#pragma acc routine seq
static double clock_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

#pragma acc routine seq
static void sleep_until(double when) {
  long seconds = when;
  struct timespec t = {seconds, (when - seconds) * 1e9};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0);
}

/* Iterations are counted in `done`. */
#pragma acc routine seq
static unsigned char pixel(int px, int py, int size, long *done) {
  double x0 = -2.25 + 3.0 * px / size, y0 = -1.5 + 3.0 * py / size, x = 0, y = 0;
  int i = 0;
  for (; i < ITERATIONS && x * x + y * y < 4; i++) {
    double t = x * x - y * y + x0;
    y = 2 * x * y + y0;
    x = t;
  }
  *done += i;
  return i;
}

static void enqueue(int block, int copies) {
  int rows = size / blocks, first = block * rows, n = size, ns = ns_each;
#pragma acc parallel num_gangs(1) present(image[0:(size_t)size * size], told[0:blocks]) async(REGIONS)
  {
    double begun = clock_of(CLOCK_MONOTONIC), computed = clock_of(CLOCK_THREAD_CPUTIME_ID);
    long done = 0;
    for (int y = first; y < first + rows; y++) {
      for (int x = 0; x < n; x++) image[(size_t)y * n + x] = pixel(x, y, n, &done);
      if (ns) sleep_until(begun + 1e-9 * ns * done);
    }
    told[block].begun = begun;
    told[block].planned = 1e-9 * ns * done;
    told[block].computed = clock_of(CLOCK_THREAD_CPUTIME_ID) - computed;
    told[block].ended = clock_of(CLOCK_MONOTONIC);
  }
#pragma acc wait(REGIONS) async(copies)
#pragma acc update self(image[(size_t)first * size:(size_t)rows * size], told[block:1]) async(copies)
}

/* ---- blocks go to devices with room for one ---- */

static int next_block;

struct hand { pthread_t thread; int device, depth; };

static void *serve(void *argument) {
  struct hand *hand = argument;
  acc_set_device_num(hand->device, acc_device_not_host);
  for (int i = 0;; i++) {
    int copies = COPIES + i % hand->depth, block;
    if (i >= hand->depth) acc_wait(copies);
    if ((block = __atomic_fetch_add(&next_block, 1, __ATOMIC_RELAXED)) >= blocks) break;
    enqueue(block, copies);
  }
  acc_wait_all();
  return 0;
}

static double draw(int first, int count, int depth) {
  struct hand hands[DEVICES_MAX];
  next_block = 0;
  double begin = clock_of(CLOCK_MONOTONIC);
  for (int i = 0; i < count; i++) {
    hands[i].device = first + i, hands[i].depth = depth;
    pthread_create(&hands[i].thread, 0, serve, &hands[i]);
  }
  for (int i = 0; i < count; i++) pthread_join(hands[i].thread, 0);
  return clock_of(CLOCK_MONOTONIC) - begin;
}

/* ---- results ---- */

static void report(const char *name, const char *what, const char *unit, const double *samples) {
  printf("{\"name\":\"%s%s\",\"unit\":\"%s\",\"samples\":[", name, what, unit);
  for (int i = 0; i < rounds; i++) printf("%s%.5g", i ? "," : "", samples[i]);
  printf("]}\n");
}

static struct told sum(void) {
  struct told all = {0};
  for (int i = 0; i < blocks; i++) {
    all.ended += told[i].ended - told[i].begun;
    all.planned += told[i].planned;
    all.computed += told[i].computed;
  }
  return all;
}

int main(int argc, char **argv) {
  if (argc != 6) return fprintf(stderr, "usage: mandelbrot_apart SIZE BLOCKS ROUNDS NS DEPTH\n"), 2;
  size = atoi(argv[1]), blocks = atoi(argv[2]), rounds = atoi(argv[3]), ns_each = atoi(argv[4]), depth = atoi(argv[5]);
  int devices = acc_get_num_devices(acc_device_not_host);
  if (blocks < 1 || size < 1 || size % blocks || rounds < 1 || rounds > ROUNDS_MAX || depth < 1 || depth > DEPTH_MAX) return 2;
  if (devices < 1 || devices > DEVICES_MAX) return fprintf(stderr, "%d devices\n", devices), 1;
  size_t pixels = (size_t)size * size;
  image = malloc(pixels), told = calloc(blocks, sizeof *told);
  unsigned char *right = malloc(pixels);
  long done = 0;
  for (int y = 0; y < size; y++)
    for (int x = 0; x < size; x++) right[(size_t)y * size + x] = pixel(x, y, size, &done);
  for (int device = 0; device < devices; device++) {
    acc_set_device_num(device, acc_device_not_host);
#pragma acc enter data create(image[0:pixels]) copyin(told[0:blocks])
  }
  /* The devices one by one, all, and all with a wait for each block. */
  int steps = devices + 2;
  static struct step { double took[ROUNDS_MAX], core[ROUNDS_MAX], late[ROUNDS_MAX], idle[ROUNDS_MAX]; } found[DEVICES_MAX + 2];
  for (int round = -1; round < rounds; round++) {
    /* The first one is to get everything started. */
    for (int step = round < 0 ? devices : 0; step < steps; step++) {
      int count = step < devices ? 1 : devices;
      memset(image, 0, pixels);
      double took = draw(step < devices ? step : 0, count, step > devices ? 1 : depth);
      if (memcmp(image, right, pixels)) return fprintf(stderr, "a picture is wrong\n"), 1;
      if (round < 0) continue;
      struct told regions = sum();
      found[step].took[round] = took;
      found[step].core[round] = regions.computed / regions.ended;
      found[step].late[round] = ns_each ? regions.ended / regions.planned : 1;
      found[step].idle[round] = 1 - regions.ended / count / took;
    }
  }
  for (int step = 0; step < steps; step++) {
    char name[32];
    if (step < devices) snprintf(name, sizeof name, "device_%d", step);
    else strcpy(name, step == devices ? "all" : "all_waited");
    report(name, "", "s", found[step].took);
    report(name, "/core", "of a core, in regions", found[step].core);
    report(name, "/late", "x what regions were to take", found[step].late);
    report(name, "/idle", "of the devices' time", found[step].idle);
  }
  return 0;
}
