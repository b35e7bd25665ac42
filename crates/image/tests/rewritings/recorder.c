// The recorder for programs in Fortran, linked with them.
#include <stdio.h>
#include <stdlib.h>
#include "recorder.h"
