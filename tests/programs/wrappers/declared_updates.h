/* Beside the source: what it declares is updated there. */
double in_header[50];
#pragma acc declare create(in_header)
