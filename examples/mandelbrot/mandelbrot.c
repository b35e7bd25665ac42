/* The Mandelbrot set, drawn in five steps that make better and better use of the devices.
 *
 *   serial        the host alone, no region
 *   blocked       the rows in blocks, one region a block, one copy of the picture at the end
 *   blocked-data  each block is copied back after its region
 *   async         block b computes and copies in queue b % queues, so copies overlap regions
 *   devices       the same with the blocks dealt out to every device
 *
 * Every step must draw exactly the same picture. */
#include <math.h>
#include <openacc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_COLOR = 253, INSIDE = 254, UNSET = 255 };

static int width = 1920, height = 1080, blocks = 16, queues = 2, iterations = 2000;
static int progress = -1; /* -1: when stderr is a terminal */
static const char *step_name = "all", *output = NULL;

/* The view: the whole set, in the middle, whatever the picture's shape. */
static double left, top, pixel_size;

/* ---- the work ------------------------------------------------------------------------ */

#pragma acc routine seq
static unsigned char mandelbrot(int x, int y, double left, double top, double pixel_size, int iterations)
{
    double cr = left + x * pixel_size, ci = top - y * pixel_size;
    double zr = 0.0, zi = 0.0;
    for (int n = 0; n < iterations; n++) {
        double rr = zr * zr, ii = zi * zi;
        if (rr + ii > 4.0)
            return (unsigned char)(n < MAX_COLOR ? n : MAX_COLOR);
        zi = 2.0 * zr * zi + ci;
        zr = rr - ii + cr;
    }
    return INSIDE;
}

/* ---- progress ------------------------------------------------------------------------ */

static void show_progress(const char *step, int done)
{
    enum { CELLS = 40 };
    if (!progress)
        return;
    int full = done * CELLS / blocks;
    fprintf(stderr, "\r%-12s [", step);
    for (int i = 0; i < CELLS; i++)
        fputc(i < full ? '#' : '.', stderr);
    fprintf(stderr, "] %3d%%%s", done * 100 / blocks, done == blocks ? "\n" : "");
    fflush(stderr);
}

static int first_row(int block)
{
    return (int)((long)block * height / blocks);
}

/* Watches the blocks come home until the devices have nothing left to do: a block is here once its
 * last pixel has a colour. Asking the devices also lets a lost one be noticed. */
static void watch_blocks(const char *step, volatile unsigned char *image, int devices, acc_device_t type)
{
    if (!progress)
        return;
    for (int done = -1, busy = 1; busy;) {
        busy = 0;
        for (int d = 0; d < devices; d++) {
            if (devices > 1)
                acc_set_device_num(d, type);
            busy |= !acc_async_test_all();
        }
        int now = 0;
        for (int b = 0; b < blocks; b++)
            now += image[(size_t)first_row(b + 1) * width - 1] != UNSET;
        if (now != done)
            show_progress(step, now);
        done = now;
        if (busy)
            nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
    }
}

/* ---- the steps: each returns how many devices it used -------------------------------- */

static int draw_serial(unsigned char *image)
{
    for (int block = 0; block < blocks; block++) {
        for (int y = first_row(block); y < first_row(block + 1); y++)
            for (int x = 0; x < width; x++)
                image[(size_t)y * width + x] = mandelbrot(x, y, left, top, pixel_size, iterations);
        show_progress("serial", block + 1);
    }
    return 0;
}

static int draw_blocked(unsigned char *image)
{
    size_t pixels = (size_t)width * height;
#pragma acc data create(image[0:pixels])
    {
        for (int block = 0; block < blocks; block++) {
            int ystart = first_row(block), yend = first_row(block + 1);
#pragma acc parallel loop present(image[0:pixels])
            for (int y = ystart; y < yend; y++) {
#pragma acc loop vector
                for (int x = 0; x < width; x++)
                    image[(size_t)y * width + x] = mandelbrot(x, y, left, top, pixel_size, iterations);
            }
            show_progress("blocked", block + 1);
        }
#pragma acc update self(image[0:pixels])
    }
    return 1;
}

static int draw_blocked_data(unsigned char *image)
{
    size_t pixels = (size_t)width * height;
#pragma acc data create(image[0:pixels])
    for (int block = 0; block < blocks; block++) {
        int ystart = first_row(block), yend = first_row(block + 1);
        size_t first = (size_t)ystart * width, count = (size_t)(yend - ystart) * width;
#pragma acc parallel loop present(image[0:pixels])
        for (int y = ystart; y < yend; y++) {
#pragma acc loop vector
            for (int x = 0; x < width; x++)
                image[(size_t)y * width + x] = mandelbrot(x, y, left, top, pixel_size, iterations);
        }
#pragma acc update self(image[first:count])
        show_progress("blocked-data", block + 1);
    }
    return 1;
}

/* What the steps `async` and `devices` do with a block: nothing here waits. */
static void enqueue_block(unsigned char *image, int block, int queue)
{
    size_t pixels = (size_t)width * height;
    int ystart = first_row(block), yend = first_row(block + 1);
    size_t first = (size_t)ystart * width, count = (size_t)(yend - ystart) * width;
#pragma acc parallel loop present(image[0:pixels]) async(queue)
    for (int y = ystart; y < yend; y++) {
#pragma acc loop vector
        for (int x = 0; x < width; x++)
            image[(size_t)y * width + x] = mandelbrot(x, y, left, top, pixel_size, iterations);
    }
#pragma acc update self(image[first:count]) async(queue)
}

static int draw_async(unsigned char *image)
{
    size_t pixels = (size_t)width * height;
#pragma acc data create(image[0:pixels])
    {
        for (int block = 0; block < blocks; block++)
            enqueue_block(image, block, block % queues);
        watch_blocks("async", image, 1, acc_get_device_type());
#pragma acc wait
    }
    return 1;
}

/* The chapter names acc_device_nvidia; where there is none, the default type's devices do. */
static acc_device_t type_of_all(void)
{
    return acc_get_num_devices(acc_device_nvidia) > 0 ? acc_device_nvidia : acc_get_device_type();
}

static int draw_devices(unsigned char *image)
{
    size_t pixels = (size_t)width * height;
    acc_device_t type = type_of_all();
    int devices = acc_get_num_devices(type);
    for (int d = 0; d < devices; d++) {
        acc_set_device_num(d, type);
#pragma acc enter data create(image[0:pixels])
    }
    for (int block = 0; block < blocks; block++) {
        acc_set_device_num(block % devices, type);
        enqueue_block(image, block, block / devices % queues);
    }
    watch_blocks("devices", image, devices, type);
    for (int d = 0; d < devices; d++) {
        acc_set_device_num(d, type);
#pragma acc wait
#pragma acc exit data delete(image[0:pixels])
    }
    acc_set_device_num(0, type);
    return devices;
}

/* Starts the devices and their queues before the clock does. */
static void warm_up(void)
{
    acc_device_t type = type_of_all();
    for (int d = 0; d < acc_get_num_devices(type); d++) {
        acc_set_device_num(d, type);
        for (int q = 0; q < queues; q++) {
#pragma acc parallel async(q)
            { }
        }
#pragma acc wait
    }
    acc_set_device_num(0, type);
}

/* ---- around it ----------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* Adler-32 of the pixels. */
static unsigned long checksum(const unsigned char *image)
{
    unsigned long a = 1, b = 0;
    for (size_t i = 0; i < (size_t)width * height; i++) {
        a = (a + image[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

/* Blue and gold outside, black inside: a polynomial in the square root of the pixel's value. */
static void color(int value, unsigned char rgb[3])
{
    double t = value >= INSIDE ? 0.0 : sqrt(value / 253.0), u = 1.0 - t;
    rgb[0] = (unsigned char)(255.0 * 9.0 * u * t * t * t);
    rgb[1] = (unsigned char)(255.0 * 15.0 * u * u * t * t);
    rgb[2] = (unsigned char)(255.0 * 8.5 * u * u * u * t);
}

static void write_ppm(const char *path, const unsigned char *image)
{
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        exit(1);
    }
    fprintf(file, "P6\n%d %d\n255\n", width, height);
    for (size_t i = 0; i < (size_t)width * height; i++) {
        unsigned char rgb[3];
        color(image[i], rgb);
        fwrite(rgb, 1, 3, file);
    }
    if (fclose(file)) {
        perror(path);
        exit(1);
    }
}

static const struct step {
    const char *name;
    int (*draw)(unsigned char *);
    int uses_queues;
} steps[] = {
    {"serial", draw_serial, 0},
    {"blocked", draw_blocked, 0},
    {"blocked-data", draw_blocked_data, 0},
    {"async", draw_async, 1},
    {"devices", draw_devices, 1},
};
enum { STEPS = sizeof steps / sizeof steps[0] };

static void usage(FILE *to)
{
    fprintf(to,
            "usage: mandelbrot [options]\n"
            "  --step NAME        serial, blocked, blocked-data, async, devices or all (%s)\n"
            "  --width N          pixels (%d)\n"
            "  --height N         pixels (%d)\n"
            "  --blocks N         blocks of rows (%d)\n"
            "  --queues N         queues a device (%d)\n"
            "  --iterations N     at most so many a pixel (%d)\n"
            "  --output FILE      write the picture as PPM; %%s in FILE becomes the step's name\n"
            "  --progress         show a bar on stderr though it is no terminal; --no-progress: never\n",
            step_name, width, height, blocks, queues, iterations);
}

static int number(const char *option, const char *text)
{
    char *end = NULL;
    long value = text ? strtol(text, &end, 10) : 0;
    if (!text || *end || value < 1 || value > 1000000) {
        fprintf(stderr, "mandelbrot: %s wants a number from 1 to 1000000\n", option);
        exit(2);
    }
    return (int)value;
}

static void read_options(char **argv)
{
    for (char **a = argv + 1; *a; a++) {
        if (!strcmp(*a, "--width")) width = number(*a, a[1]), a++;
        else if (!strcmp(*a, "--height")) height = number(*a, a[1]), a++;
        else if (!strcmp(*a, "--blocks")) blocks = number(*a, a[1]), a++;
        else if (!strcmp(*a, "--queues")) queues = number(*a, a[1]), a++;
        else if (!strcmp(*a, "--iterations")) iterations = number(*a, a[1]), a++;
        else if (!strcmp(*a, "--step") && a[1]) step_name = *++a;
        else if (!strcmp(*a, "--output") && a[1]) output = *++a;
        else if (!strcmp(*a, "--progress")) progress = 1;
        else if (!strcmp(*a, "--no-progress")) progress = 0;
        else if (!strcmp(*a, "--help")) usage(stdout), exit(0);
        else usage(stderr), exit(2);
    }
    if (progress < 0)
        progress = isatty(STDERR_FILENO);
    if (blocks > height)
        blocks = height;
}

/* FILE with the first %s replaced by the step's name. */
static void output_path(char *path, size_t size, const char *step)
{
    const char *mark = strstr(output, "%s");
    if (mark)
        snprintf(path, size, "%.*s%s%s", (int)(mark - output), output, step, mark + 2);
    else
        snprintf(path, size, "%s", output);
}

int main(int argc, char **argv)
{
    (void)argc;
    read_options(argv);
    pixel_size = 3.5 / width > 2.5 / height ? 3.5 / width : 2.5 / height;
    left = -0.75 - pixel_size * width / 2;
    top = pixel_size * height / 2;

    unsigned char *image = malloc((size_t)width * height);
    if (!image) {
        perror("mandelbrot");
        return 1;
    }
    int ran = 0, warm = 0, different = 0;
    unsigned long first = 0;
    for (int s = 0; s < STEPS; s++) {
        const struct step *step = &steps[s];
        if (strcmp(step_name, "all") && strcmp(step_name, step->name))
            continue;
        if (step->draw != draw_serial && !warm++)
            warm_up();
        memset(image, UNSET, (size_t)width * height);
        double start = now();
        int devices = step->draw(image);
        double seconds = now() - start;
        unsigned long sum = checksum(image);
        printf("step=%s devices=%d queues=%d blocks=%d seconds=%.3f checksum=%08lX\n", step->name, devices,
               step->uses_queues ? queues : 0, blocks, seconds, sum);
        fflush(stdout);
        if (!ran++)
            first = sum;
        different |= sum != first;
        if (output) {
            char path[4096];
            output_path(path, sizeof path, step->name);
            write_ppm(path, image);
        }
    }
    free(image);
    if (!ran) {
        usage(stderr);
        return 2;
    }
    if (different) {
        fprintf(stderr, "mandelbrot: the steps drew different pictures\n");
        return 1;
    }
    return 0;
}
