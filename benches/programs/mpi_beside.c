/* What goes through Accord's gateway and MPI, beside raw MPI between the same two hosts, in the same process and by turns.
 *
 * Started by `accord run --local-cluster 3x1 --fabric mpi -np 2`: its ranks are an MPI world of their own, beside that of the agents. Rank 0 measures,
 * rank 1 answers raw messages and sleeps meanwhile. Each line of output is one JSON object, as remote.c's.
 *
 * Usage: mpi_beside all ROUNDS MIB | mpi_beside empty ROUNDS | mpi_beside idle SECONDS
 * empty: without -np, and with --remote-only, so that commands to the host's own device go to its agent too.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <linux/futex.h>
#include <mpi.h>
#include <openacc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern void acc_memcpy_d2d(void *, void *, size_t, int, int) __attribute__((weak));

enum { PING = 1, STREAM, END, BATCH = 100, TINY = 64, ROUNDS_MAX = 64 };

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void report(const char *name, const char *unit, const double *samples, int n) {
  printf("{\"name\":\"%s\",\"unit\":\"%s\",\"samples\":[", name, unit);
  for (int i = 0; i < n; i++) printf("%s%.4g", i ? "," : "", samples[i]);
  printf("]}\n");
}

/* ---- raw MPI: rank 1 does what rank 0 says, and leaves the processors to others in between ---- */

static void answer(char *data, size_t bytes) {
  for (;;) {
    int there = 0, what;
    char tiny[TINY];
    MPI_Iprobe(0, 0, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    if (!there) {
      usleep(500);
      continue;
    }
    MPI_Recv(&what, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (what == END) return;
    for (int i = 0; what == PING && i < BATCH; i++) {
      MPI_Recv(tiny, TINY, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(tiny, TINY, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    if (what == STREAM) {
      MPI_Send(tiny, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
      MPI_Recv(data, (int)bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(tiny, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
  }
}

static void ask(int what) { MPI_Send(&what, 1, MPI_INT, 1, 0, MPI_COMM_WORLD); }

static void raw_pings(double *samples) {
  char tiny[TINY] = {0};
  ask(PING);
  for (int i = 0; i < BATCH; i++) {
    double t = now_us();
    MPI_Send(tiny, TINY, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    MPI_Recv(tiny, TINY, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    samples[i] = now_us() - t;
  }
}

static double raw_stream(char *data, size_t bytes) {
  char word;
  ask(STREAM);
  MPI_Recv(&word, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  double t = now_us();
  MPI_Send(data, (int)bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
  MPI_Recv(&word, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return now_us() - t;
}

/* ---- raw shared memory: a child that answers words, by looking or by sleeping ---- */

static uint32_t *words; /* [0] to the child, [16] from it, [32] whether it sleeps */

static void futex(uint32_t *word, int op, uint32_t value) { syscall(SYS_futex, word, op, value, 0, 0, 0); }

static void await(uint32_t *word, uint32_t value, int sleeps) {
  uint32_t seen;
  while ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != value && seen != UINT32_MAX)
    if (sleeps) futex(word, FUTEX_WAIT, seen);
}

static void post(uint32_t *word, uint32_t value, int wakes) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
  if (wakes) futex(word, FUTEX_WAKE, 1);
}

static void echo(void) {
  for (uint32_t n = 1; words[0] != UINT32_MAX; n++) {
    int sleeps = __atomic_load_n(&words[32], __ATOMIC_ACQUIRE);
    await(&words[0], n, sleeps);
    post(&words[16], n, sleeps);
  }
  _exit(0);
}

static void shm_pings(double *samples, int sleeps) {
  post(&words[32], sleeps, 0);
  post(&words[16], 0, 0);
  post(&words[0], 0, 0);
  pid_t child = fork();
  if (!child) echo();
  for (uint32_t n = 1; n <= BATCH; n++) {
    double t = now_us();
    post(&words[0], n, sleeps);
    await(&words[16], n, sleeps);
    samples[n - 1] = now_us() - t;
  }
  post(&words[0], UINT32_MAX, 1);
  waitpid(child, 0, 0);
}

/* ---- what the machine's agents use ---- */

static int agents(double *used_us, int most) {
  DIR *all = opendir("/proc");
  int n = 0;
  for (struct dirent *e; (e = readdir(all)) && n < most;) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/%s/comm", e->d_name);
    FILE *f = fopen(path, "r");
    if (!f) continue;
    int is_agent = fgets(name, sizeof name, f) && !strncmp(name, "accord-node-age", 15);
    fclose(f);
    if (!is_agent) continue;
    snprintf(path, sizeof path, "/proc/%s/task", e->d_name);
    DIR *tasks = opendir(path);
    double used = 0;
    for (struct dirent *t; tasks && (t = readdir(tasks));) {
      long long ns = 0;
      char stat[600];
      snprintf(stat, sizeof stat, "%s/%s/schedstat", path, t->d_name);
      FILE *g = t->d_name[0] == '.' ? 0 : fopen(stat, "r");
      if (g && fscanf(g, "%lld", &ns) == 1) used += ns / 1e3;
      if (g) fclose(g);
    }
    if (tasks) closedir(tasks);
    used_us[n++] = used;
  }
  closedir(all);
  return n;
}

int main(int argc, char **argv) {
  if (argc < 3) return fprintf(stderr, "usage: mpi_beside all ROUNDS MIB | empty ROUNDS | idle SECONDS\n"), 2;
  int rank, ranks, number = atoi(argv[2]), rounds = number < ROUNDS_MAX ? number : ROUNDS_MAX;
  size_t bytes = (argc > 3 ? (size_t)atol(argv[3]) : 1) << 20;
  words = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  char *data = malloc(bytes);
  memset(data, 3, bytes);
  if (rank) {
    answer(data, bytes);
    return MPI_Finalize();
  }
  int small = rounds * BATCH, near = 1, far = 2; /* 0 is this host's */
  double *raw = calloc(small, 8), *sleeping = calloc(small, 8), *ours = calloc(small, 8), x[64] = {0};
  double stream[ROUNDS_MAX], in[ROUNDS_MAX], d2d[ROUNDS_MAX];
  if (!strcmp(argv[1], "idle")) {
    double before[16], after[16], share[16];
    acc_set_device_num(near, acc_device_not_host);
#pragma acc enter data copyin(x)
    sleep(1);
    int n = agents(before, 16);
    sleep(number);
    agents(after, 16);
    for (int i = 0; i < n; i++) share[i] = (after[i] - before[i]) / number / 1e4;
    report("idle_agent", "% of a core", share, n);
  } else if (!strcmp(argv[1], "empty")) {
    acc_set_device_num(0, acc_device_not_host);
#pragma acc enter data copyin(x)
    for (int r = -1; r < rounds; r++) {
      int at = r < 0 ? 0 : r * BATCH;
      shm_pings(raw + at, 0);
      shm_pings(sleeping + at, 1);
      for (int i = 0; i < BATCH; i++) {
        double t = now_us();
        acc_get_property(0, acc_device_not_host, acc_property_free_memory);
        ours[at + i] = now_us() - t;
      }
    }
    report("shm_spinning", "us", raw, small);
    report("shm_sleeping", "us", sleeping, small);
    report("empty_command", "us", ours, small);
  } else {
    for (int device = near; device <= far; device++) {
      acc_set_device_num(device, acc_device_not_host);
#pragma acc enter data copyin(x) create(data[0:bytes])
#pragma acc parallel present(x) async(1)
      { x[0] = 1; }
#pragma acc wait
#pragma acc update device(data[0:bytes])
    }
    acc_set_device_num(near, acc_device_not_host);
    for (int r = -1; r < rounds; r++) {
      int at = r < 0 ? 0 : r * BATCH;
      raw_pings(raw + at);
      for (int i = 0; i < BATCH; i++) {
        double t = now_us();
#pragma acc parallel present(x) async(1)
        { x[0] += 1; }
#pragma acc wait(1)
        ours[at + i] = now_us() - t;
      }
    }
    report("mpi_ping", "us", raw, small);
    report("launch_wait", "us", ours, small);
    for (int r = -1; r < rounds; r++) {
      double a = raw_stream(data, bytes), t = now_us();
#pragma acc update device(data[0:bytes])
      /* Landed, not only sent. */
#pragma acc parallel present(x) async(1)
      { x[0] += 1; }
      acc_wait_all();
      double b = now_us() - t, c = 0;
      if (acc_memcpy_d2d) {
        t = now_us();
        acc_memcpy_d2d(data, data, bytes, far, near);
        c = now_us() - t;
      }
      if (r >= 0) stream[r] = a, in[r] = b, d2d[r] = c;
    }
    report("mpi_stream", "us", stream, rounds);
    report("copyin", "us", in, rounds);
    if (acc_memcpy_d2d) report("d2d", "us", d2d, rounds);
  }
  if (ranks > 1) ask(END);
  fflush(stdout);
  return MPI_Finalize();
}
