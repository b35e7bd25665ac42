// acc_get_property and acc_get_property_string (3.2.6).
#include "check.h"

int main(void)
{
    acc_device_t type = device_type();
    for (int d = 0; d < device_count(); d++) {
        const char *name = acc_get_property_string(d, type, acc_property_name);
        const char *vendor = acc_get_property_string(d, type, acc_property_vendor);
        const char *driver = acc_get_property_string(d, type, acc_property_driver);
        CHECK(name && *name);
        CHECK(vendor && *vendor);
        CHECK(driver && *driver);
        CHECK(acc_get_property_string(d, type, acc_property_name) == name); /* stays valid */
        if (separate()) {
            size_t memory = acc_get_property(d, type, acc_property_memory);
            CHECK(memory >= 1 << 20);
            CHECK(acc_get_property(d, type, acc_property_free_memory) <= memory);
        }
        CHECK_EQ(acc_get_property(d, type, acc_property_name), 0);   /* a string property has no number */
        CHECK(acc_get_property_string(d, type, acc_property_memory) == NULL);
    }
    CHECK_EQ(acc_get_property(0, acc_device_host, acc_property_memory), 0);
    CHECK(acc_get_property_string(0, acc_device_host, acc_property_name) != NULL);
    return pass();
}
