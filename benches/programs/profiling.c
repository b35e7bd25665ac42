/* What events cost: regions on a device without a tool, with one that counts all events, and after it is gone.
 *
 * Blocks of the three alternate; each sample is the time of one operation in its block, in us: `enqueue` is an asynchronous region
 * (the wait after the block is not in it), `wait` a synchronous one. `events` are those of one operation. Each line of output
 * is one JSON object: {"name":..,"unit":..,"samples":[..]}.
 *
 * Usage: profiling BLOCKS REGIONS
 */
#define _GNU_SOURCE
#include <acc_prof.h>
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NEVER, NONE, COUNTED, KINDS, BLOCKS_MAX = 1000 };
static const char *const names[KINDS] = {"never", "none", "counted"};
static double a[100], times[2][KINDS][BLOCKS_MAX], events_each[2];
static long events;

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void count(acc_prof_info *prof, acc_event_info *event, acc_api_info *api) {
  (void)prof, (void)event, (void)api;
  events++;
}

static void all(void (*change)(acc_event_t, acc_prof_callback, acc_register_t)) {
  for (int event = acc_ev_none + 1; event < acc_ev_last; event++) change((acc_event_t)event, count, acc_reg);
}

static void block(int waits, int kind, int at, int regions) {
  if (kind == COUNTED) all(acc_prof_register);
  long before = events;
  double begin = now_us();
  if (waits)
    for (int r = 0; r < regions; r++) {
#pragma acc parallel present(a)
      a[0] += 1;
    }
  else
    for (int r = 0; r < regions; r++) {
#pragma acc parallel present(a) async(1)
      a[0] += 1;
    }
  times[waits][kind][at] = (now_us() - begin) / regions;
  if (kind == COUNTED) {
    events_each[waits] = (double)(events - before) / regions;
    all(acc_prof_unregister);
  }
#pragma acc wait
}

static void print(const char *operation, const char *name, const char *unit, const double *samples, int count) {
  printf("{\"name\":\"%s_%s\",\"unit\":\"%s\",\"samples\":[", operation, name, unit);
  for (int s = 0; s < count; s++) printf("%s%.4f", s ? "," : "", samples[s]);
  printf("]}\n");
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  int blocks = atoi(argv[1]), regions = atoi(argv[2]);
  if (blocks < 1 || blocks > BLOCKS_MAX || regions < 1) return 2;
#pragma acc enter data copyin(a)
  /* Before any tool; the first block of each warms up. */
  for (int waits = 0; waits < 2; waits++) block(waits, NEVER, 0, regions);
  for (int s = 0; s < blocks; s++)
    for (int waits = 0; waits < 2; waits++) block(waits, NEVER, s, regions);
  for (int waits = 0; waits < 2; waits++) block(waits, COUNTED, 0, regions);
  for (int s = 0; s < blocks; s++)
    for (int waits = 0; waits < 2; waits++)
      for (int kind = NONE; kind < KINDS; kind++) block(waits, kind, s, regions);
#pragma acc exit data copyout(a)
  double want = 1.0 * regions * (4 + 6.0 * blocks);
  if (a[0] != want) {
    fprintf(stderr, "a[0] is %g, expected %g\n", a[0], want);
    return 1;
  }
  for (int waits = 0; waits < 2; waits++) {
    const char *operation = waits ? "wait" : "enqueue";
    for (int kind = 0; kind < KINDS; kind++) print(operation, names[kind], "us", times[waits][kind], blocks);
    print(operation, "events", "events", &events_each[waits], 1);
  }
  return 0;
}
