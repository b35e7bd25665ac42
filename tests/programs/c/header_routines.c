// Every routine by Accord's own openacc.h (chapter 3, A.2.1), in C.
// BUILD headers
// BUILD linked
// BUILD flags=-Wall -Wextra -pedantic -Werror -Wno-unknown-pragmas
// EXPECT device-memory
#include "every_routine.h"

int main(void)
{
    return every_routine();
}
