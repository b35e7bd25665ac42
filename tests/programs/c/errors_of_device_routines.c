// The errors of 3.2.1 (get_num_devices) to 3.2.8 (shutdown), each in a process of its own.
// EXPECT device-memory
#include "error_case.h"

#pragma weak acc_init_device
#pragma weak acc_shutdown_device
extern void acc_init_device(int, acc_device_t), acc_shutdown_device(int, acc_device_t);

#define MINE acc_get_device_type()
#define NO_TYPE ((acc_device_t)77)

#define CASES(X)                                                                                    \
    X(get_num_devices_absent, NO_ERROR, CHECK_EQ(acc_get_num_devices(acc_device_radeon), 0))        \
    X(get_num_devices_unknown, NO_ERROR, CHECK_EQ(acc_get_num_devices(NO_TYPE), 0))                 \
    X(set_device_type, NO_ERROR, acc_set_device_type(acc_device_default))                           \
    X(set_device_type_absent, DEVICE_TYPE_UNAVAILABLE, acc_set_device_type(acc_device_radeon))      \
    X(set_device_type_unknown, DEVICE_TYPE_UNAVAILABLE, acc_set_device_type(NO_TYPE))               \
    X(set_device_num_absent_type, DEVICE_TYPE_UNAVAILABLE, acc_set_device_num(0, acc_device_radeon)) \
    X(set_device_num_unknown_type, DEVICE_TYPE_UNAVAILABLE, acc_set_device_num(0, NO_TYPE))         \
    X(set_device_num_too_high, DEVICE_UNAVAILABLE, acc_set_device_num(99, MINE))                    \
    X(set_device_num_negative, DEVICE_UNAVAILABLE, acc_set_device_num(-1, MINE))                    \
    X(get_property_no_device, NO_ERROR, CHECK_EQ(acc_get_property(99, MINE, acc_property_memory), 0)) \
    X(get_property_negative, NO_ERROR, CHECK_EQ(acc_get_property(-7, MINE, acc_property_memory), 0)) \
    X(get_property_unknown, NO_ERROR, CHECK_EQ(acc_get_property(0, MINE, (acc_device_property_t)999), 0)) \
    X(get_property_absent_type, NO_ERROR,                                                           \
      CHECK_EQ(acc_get_property(0, acc_device_radeon, acc_property_memory), 0))                     \
    X(get_property_string_no_device, NO_ERROR,                                                      \
      CHECK(acc_get_property_string(99, MINE, acc_property_name) == NULL))                          \
    X(init, NO_ERROR, acc_init(acc_device_default))                                                 \
    X(init_absent, DEVICE_TYPE_UNAVAILABLE, acc_init(acc_device_radeon))                            \
    X(init_unknown, DEVICE_TYPE_UNAVAILABLE, acc_init(NO_TYPE))                                     \
    X(init_device_too_high, DEVICE_UNAVAILABLE, acc_init_device(99, MINE))                          \
    X(init_device_absent, DEVICE_TYPE_UNAVAILABLE, acc_init_device(0, acc_device_radeon))           \
    X(shutdown, NO_ERROR, acc_init(acc_device_default); acc_shutdown(acc_device_default))           \
    X(shutdown_absent, DEVICE_TYPE_UNAVAILABLE, acc_shutdown(acc_device_radeon))                    \
    X(shutdown_unknown, DEVICE_TYPE_UNAVAILABLE, acc_shutdown(NO_TYPE))                             \
    X(shutdown_device_too_high, DEVICE_UNAVAILABLE, acc_shutdown_device(99, MINE))                  \
    X(shutdown_device_absent, DEVICE_TYPE_UNAVAILABLE, acc_shutdown_device(0, acc_device_radeon))   \
    X(on_device_unknown, NO_ERROR, volatile acc_device_t type = NO_TYPE; CHECK(!acc_on_device(type)))

ERROR_CASES(CASES)
