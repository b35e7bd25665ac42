/* Beside the source: found although the compiler gets a copy of that. */
enum { QUEUE = 3 };
