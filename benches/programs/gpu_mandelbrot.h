/* The picture of the benches. */
#ifndef GPU_MANDELBROT_H
#define GPU_MANDELBROT_H

/* How long the point (x, y) of a picture of size x size stays, into `place`. No function: none is to be called in kernels. */
#define MANDELBROT(place, x, y, size, iterations)                                           \
    do {                                                                                    \
        double cr = -2 + 3.0 * (x) / (size), ci = -1.5 + 3.0 * (y) / (size), zr = 0, zi = 0; \
        int n = 0;                                                                          \
        while (n < (iterations) && zr * zr + zi * zi < 4) {                                 \
            double t = zr * zr - zi * zi + cr;                                              \
            zi = 2 * zr * zi + ci;                                                          \
            zr = t;                                                                         \
            n++;                                                                            \
        }                                                                                   \
        (place) = n;                                                                        \
    } while (0)
#endif
