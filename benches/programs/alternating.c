/* Launches on a device of another host while another process does something in every second period of time, so that both ways are met by the same
 * processes in the same places: a median over a whole run says more of where its threads came to lie than of anything else.
 *
 * A period is even or odd by the clock of the day, which that process reads too. Each line of output is one JSON object with one
 * sample a period: medians of enqueues and of launches that are waited for, and how often the system took the processor away or was waited in,
 * for each thousand launches.
 *
 * Usage: alternating PERIODS_OF_EACH PERIOD_MS
 */
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define PERIODS_MAX 128
/* Of a period. So few are put in order before the next one begins. */
#define SAMPLES_MAX (100 << 10)
/* At either end of a period, in ms. */
#define MARGIN 50

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static long day_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static long switches(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return used.ru_nvcsw + used.ru_nivcsw;
}

static int up(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *samples, int n) {
  qsort(samples, n, sizeof *samples, up);
  return samples[n / 2];
}

static void report(const char *way, const char *name, const char *unit, const double *samples, int n) {
  printf("{\"name\":\"%s/%s\",\"unit\":\"%s\",\"samples\":[", way, name, unit);
  for (int i = 0; i < n; i++) printf("%s%.4g", i ? "," : "", samples[i]);
  printf("]}\n");
}

int main(int argc, char **argv) {
  if (argc < 3) return fprintf(stderr, "usage: alternating PERIODS_OF_EACH PERIOD_MS\n"), 2;
  int periods = atoi(argv[1]);
  long period = atol(argv[2]);
  if (periods > PERIODS_MAX || period <= 2 * MARGIN) return fprintf(stderr, "too many periods, or too short\n"), 2;
  int devices = acc_get_num_devices(acc_device_not_host);
  if (devices < 3) return fprintf(stderr, "%d devices; run over 2 hosts or more with 2 each\n", devices), 1;
  acc_set_device_num(2, acc_device_not_host);
  double x[64] = {0};
#pragma acc enter data copyin(x)
  static double enqueue[2][PERIODS_MAX], waited[2][PERIODS_MAX], taken[2][PERIODS_MAX];
  double *enqueues = malloc(SAMPLES_MAX * sizeof(double)), *waits = malloc(SAMPLES_MAX * sizeof(double));
  int n[2] = {0};
  /* The first one warms up. A machine may be too busy for each of them. */
  for (int warm = 0; n[0] < periods || n[1] < periods;) {
    long begin = (day_ms() / period + 1) * period;
    while (day_ms() < begin + MARGIN)
      ;
    int few = 0, many = 0;
    long before = switches();
    while (day_ms() < begin + period - MARGIN) {
      for (int i = 0; i < 100; i++) {
        double t = now_us();
#pragma acc parallel present(x) async(1)
        { x[0] += 1; }
        enqueues[many++ % SAMPLES_MAX] = now_us() - t;
      }
#pragma acc wait(1)
      for (int i = 0; i < 20; i++) {
        double t = now_us();
#pragma acc parallel present(x) async(1)
        { x[0] += 1; }
#pragma acc wait(1)
        waits[few++ % SAMPLES_MAX] = now_us() - t;
      }
    }
    int odd = begin / period % 2, k = n[odd];
    if (!warm++ || !few || k == periods) continue;
    n[odd]++;
    taken[odd][k] = (switches() - before) * 1e3 / (few + many);
    enqueue[odd][k] = median(enqueues, many < SAMPLES_MAX ? many : SAMPLES_MAX);
    waited[odd][k] = median(waits, few < SAMPLES_MAX ? few : SAMPLES_MAX);
  }
  for (int odd = 0; odd < 2; odd++) {
    const char *way = odd ? "odd" : "even";
    report(way, "enqueue", "us", enqueue[odd], n[odd]);
    report(way, "launch_wait", "us", waited[odd], n[odd]);
    report(way, "switches", "a thousand launches", taken[odd], n[odd]);
  }
#pragma acc exit data delete(x)
  return 0;
}
