/* How long it takes until a program can use a device of another host: its session, its executor, its device.
 *
 * Each round is a process of its own, as a session belongs to one. Usage: open ROUNDS
 */
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int once(void) {
  double t = now_us(), both[2];
  int devices = acc_get_num_devices(acc_device_not_host);
  both[0] = now_us() - t;
  /* A request may be for one device, of any host. */
  if (devices < (getenv("ACCORD_DEVICES") || getenv("ACCORD_JOB") ? 1 : 2)) return fprintf(stderr, "%d devices; run over 2 hosts\n", devices), 1;
  acc_set_device_num(devices - 1, acc_device_not_host);
  acc_init(acc_device_not_host);
  both[1] = now_us() - t;
  return write(3, both, sizeof both) != sizeof both;
}

int main(int argc, char **argv) {
  if (argc > 2) return once();
  int rounds = argc > 1 ? atoi(argv[1]) : 15;
  if (rounds > 64) rounds = 64;
  double session[64], both[64];
  for (int i = -1; i < rounds; i++) {
    int ends[2], status;
    if (pipe(ends)) return 1;
    pid_t child = fork();
    if (!child) {
      dup2(ends[1], 3);
      execl("/proc/self/exe", argv[0], "one", "round", (char *)0);
      _exit(127);
    }
    close(ends[1]);
    double times[2];
    ssize_t came = read(ends[0], times, sizeof times);
    close(ends[0]);
    waitpid(child, &status, 0);
    if (came != sizeof times || status) return fprintf(stderr, "a round failed\n"), 1;
    /* The first one reads the files. */
    if (i >= 0) session[i] = times[0], both[i] = times[1];
  }
  const char *names[] = {"session", "open"};
  double *samples[] = {session, both};
  for (int k = 0; k < 2; k++) {
    printf("{\"name\":\"%s\",\"unit\":\"us\",\"samples\":[", names[k]);
    for (int i = 0; i < rounds; i++) printf("%s%.4g", i ? "," : "", samples[k][i]);
    printf("]}\n");
  }
  return 0;
}
