/* What a remote device costs, beside the raw thing between the same two hosts in the same run.
 *
 * Two processes, started by `accord run --local-cluster 3x2 -np 2`: rank 1 (on another host) serves
 * raw TCP, rank 0 measures. Rounds of raw and Accord alternate, so that a machine whose speed
 * drifts drifts for both. Each line of output is one JSON object: {"name":..,"unit":..,"samples":[..]}.
 *
 * Usage: remote PORT ROUNDS MIB
 * BENCH_PEER: the other host's address, if it is not that of a local cluster's second host.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/futex.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openacc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern void acc_memcpy_d2d(void *, void *, size_t, int, int) __attribute__((weak));

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void die(const char *what) {
  perror(what);
  exit(1);
}

static void all(int fd, char *p, size_t n, int sending) {
  while (n) {
    ssize_t k = sending ? send(fd, p, n, MSG_NOSIGNAL) : recv(fd, p, n, 0);
    if (k <= 0) die(sending ? "send" : "recv");
    p += k;
    n -= k;
  }
}

/* ---- raw TCP: the server echoes 64 bytes ('p'), swallows ('s') or gives ('g') a number of bytes ---- */

struct ask {
  char what;
  char pad[7];
  uint64_t bytes;
  char fill[48];
};

static void serve(int port) {
  int l = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
  setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(l, (void *)&a, sizeof a) || listen(l, 1)) die("listen");
  int fd = accept(l, 0, 0);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  size_t piece = 1 << 20;
  char *buffer = malloc(piece);
  memset(buffer, 1, piece);
  struct ask ask;
  while (recv(fd, &ask, sizeof ask, MSG_WAITALL) == sizeof ask) {
    if (ask.what == 'p') {
      all(fd, (void *)&ask, sizeof ask, 1);
      continue;
    }
    for (uint64_t left = ask.bytes; left;) {
      size_t n = left < piece ? left : piece;
      all(fd, buffer, n, ask.what == 'g');
      left -= n;
    }
    if (ask.what == 's') all(fd, (void *)&ask, sizeof ask, 1);
  }
}

static int reach(const char *host, int port) {
  struct addrinfo *info, hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
  if (getaddrinfo(host, 0, &hints, &info)) die(host);
  struct sockaddr_in a = *(struct sockaddr_in *)info->ai_addr;
  a.sin_port = htons(port);
  for (int tries = 0;; tries++) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (!connect(fd, (void *)&a, sizeof a)) {
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      return fd;
    }
    close(fd);
    if (tries == 100) die("connect");
    usleep(100000);
  }
}

static double tcp_ping(int fd) {
  struct ask ask = {.what = 'p'};
  double t = now_us();
  all(fd, (void *)&ask, sizeof ask, 1);
  all(fd, (void *)&ask, sizeof ask, 0);
  return now_us() - t;
}

/* Bytes a second are what both ends agree on: the sender waits for a word from the receiver. */
static double tcp_send(int fd, char *data, uint64_t bytes) {
  struct ask ask = {.what = 's', .bytes = bytes};
  double t = now_us();
  all(fd, (void *)&ask, sizeof ask, 1);
  all(fd, data, bytes, 1);
  all(fd, (void *)&ask, sizeof ask, 0);
  return now_us() - t;
}

static double tcp_receive(int fd, char *data, uint64_t bytes) {
  struct ask ask = {.what = 'g', .bytes = bytes};
  double t = now_us();
  all(fd, (void *)&ask, sizeof ask, 1);
  all(fd, data, bytes, 0);
  return now_us() - t;
}

/* ---- futex ping-pong between two processes ---- */

static uint32_t *words; /* [0] for the child, [16] for us */

static void futex(uint32_t *word, int op, uint32_t value) { syscall(SYS_futex, word, op, value, 0, 0, 0); }

static void await(uint32_t *word, uint32_t value) {
  uint32_t seen;
  while ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != value) futex(word, FUTEX_WAIT, seen);
}

static void post(uint32_t *word, uint32_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
  futex(word, FUTEX_WAKE, 1);
}

static double futex_ping(uint32_t n) {
  double t = now_us();
  post(&words[0], n);
  await(&words[16], n);
  return now_us() - t;
}

/* ---- results ---- */

static void report(const char *name, const char *unit, const double *samples, int n) {
  printf("{\"name\":\"%s\",\"unit\":\"%s\",\"samples\":[", name, unit);
  for (int i = 0; i < n; i++) printf("%s%.4g", i ? "," : "", samples[i]);
  printf("]}\n");
}

int main(int argc, char **argv) {
  if (argc < 4) return fprintf(stderr, "usage: remote PORT ROUNDS MIB\n"), 2;
  int port = atoi(argv[1]), rounds = atoi(argv[2]);
  size_t bytes = (size_t)atol(argv[3]) << 20;
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  if (rank && atoi(rank) == 1) return serve(port), 0;

  words = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t child = fork();
  if (!child) {
    for (uint32_t n = 1; n != 0xffffffff; n++) {
      uint32_t seen;
      while ((seen = __atomic_load_n(&words[0], __ATOMIC_ACQUIRE)) != n && seen != 0xffffffff)
        futex(&words[0], FUTEX_WAIT, seen);
      if (seen == 0xffffffff) _exit(0);
      post(&words[16], n);
    }
  }
  const char *peer = getenv("BENCH_PEER");
  int fd = reach(peer ? peer : "10.77.0.2", port);

  int devices = acc_get_num_devices(acc_device_not_host);
  if (devices < 5) return fprintf(stderr, "%d devices; run over 3 hosts with 2 each\n", devices), 1;
  int near = 2, far = 4; /* 0, 1: this host; 2, 3: the next; 4, 5: the third */
  char *data = malloc(bytes);
  memset(data, 3, bytes);
  double x[64] = {0};
  for (int device = near; device <= far; device += far - near) {
    acc_set_device_num(device, acc_device_not_host);
#pragma acc enter data copyin(x) create(data[0:bytes])
#pragma acc parallel present(x) async(1)
    { x[0] = 1; }
#pragma acc wait
#pragma acc update device(data[0:bytes])
  }
  acc_set_device_num(near, acc_device_not_host);

  int small = rounds * 100;
  double *tcp = calloc(small, 8), *fut = calloc(small, 8), *both = calloc(small, 8), *enqueue = calloc(small, 8);
  uint32_t n = 0;
  for (int i = -100; i < small; i++) {
    double a = tcp_ping(fd), b = futex_ping(++n), t = now_us();
#pragma acc parallel present(x) async(1)
    { x[0] += 1; }
#pragma acc wait(1)
    t = now_us() - t;
    if (i >= 0) tcp[i] = a, fut[i] = b, both[i] = t;
  }
  report("tcp_ping", "us", tcp, small);
  report("futex_ping", "us", fut, small);
  report("launch_wait", "us", both, small);
  /* In a row, as programs do it: a thread that looks for work a moment before it sleeps finds it. */
  for (int i = -100; i < small; i++) {
    double t = now_us();
#pragma acc parallel present(x) async(1)
    { x[0] += 1; }
#pragma acc wait(1)
    if (i >= 0) both[i] = now_us() - t;
  }
  report("launch_wait_in_a_row", "us", both, small);
  for (int i = 0; i < small; i++) {
    double t = now_us();
#pragma acc parallel present(x) async(1)
    { x[0] += 1; }
    enqueue[i] = now_us() - t;
    if (i % 100 == 99) {
#pragma acc wait(1)
    }
  }
  report("enqueue", "us", enqueue, small);

  double sent[64], received[64], in[64], out[64], d2d[64];
  if (rounds > 64) rounds = 64;
  for (int i = -1; i < rounds; i++) {
    double a = tcp_send(fd, data, bytes), b = tcp_receive(fd, data, bytes);
    double t = now_us();
#pragma acc update device(data[0:bytes])
    /* Landed, not only sent: the raw sender waits for the receiver's word too. */
#pragma acc parallel present(x) async(1)
    { x[0] += 1; }
    acc_wait_all();
    double c = now_us() - t;
    t = now_us();
#pragma acc update self(data[0:bytes])
    double d = now_us() - t;
    double e = 0;
    if (acc_memcpy_d2d) {
      t = now_us();
      acc_memcpy_d2d(data, data, bytes, far, near);
      e = now_us() - t;
    }
    if (i >= 0) sent[i] = a, received[i] = b, in[i] = c, out[i] = d, d2d[i] = e;
  }
  report("tcp_send", "us", sent, rounds);
  report("tcp_receive", "us", received, rounds);
  report("copyin", "us", in, rounds);
  report("copyout", "us", out, rounds);
  report("d2d", "us", d2d, rounds);
  /* Pieces that come while regions run: a queue of region, copy in, region, copy in, and one wait. All of them are 16 MiB. */
  size_t part = bytes < (16 << 20) ? bytes : 16 << 20;
  for (size_t piece = 64 << 10; piece <= 1 << 20; piece *= 4) {
    for (int i = -1; i < rounds; i++) {
      double a = tcp_send(fd, data, part), t = now_us();
      for (size_t at = 0; at < part; at += piece) {
#pragma acc parallel present(x) async(1)
        { x[0] += 1; }
#pragma acc update device(data[at:piece]) async(1)
      }
#pragma acc wait(1)
      if (i >= 0) sent[i] = a, in[i] = now_us() - t;
    }
    char name[64];
    snprintf(name, sizeof name, "tcp_send_beside_%zuk", piece >> 10);
    report(name, "us", sent, rounds);
    snprintf(name, sizeof name, "regions_and_copyins_of_%zuk", piece >> 10);
    report(name, "us", in, rounds);
  }
  double tiny[256];
  for (int i = -1; acc_memcpy_d2d && i < 256; i++) {
    double t = now_us();
    acc_memcpy_d2d(data, data, 8, far, near);
    if (i >= 0) tiny[i] = now_us() - t;
  }
  if (acc_memcpy_d2d) report("d2d_8_bytes", "us", tiny, 256);
  for (size_t i = 0; i < bytes; i += 4096)
    if (data[i] != data[0]) return fprintf(stderr, "byte %zu differs\n", i), 1;
  post(&words[0], 0xffffffff);
  waitpid(child, 0, 0);
  return 0;
}
