# A program that knows nothing of OpenACC loads an extension with libgomp behind it, also with RTLD_DEEPBIND, and calls routines by
# the handles of both.
# BUILD plugin=deepbind.c
import ctypes
import os
import sys

separate = os.environ.get("ACCORD_TEST_SEPARATE") == "1"
plugin = ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_DEEPBIND)
for name in ("plugin_separate_at_start", "plugin_separate"):
    if separate and getattr(plugin, name)() != 1:
        sys.exit(f"FAIL: {name}: the memory is the host's")
for library in (ctypes.CDLL("libgomp.so.1"), plugin):
    library.acc_copyin.restype = ctypes.c_void_p
    library.acc_copyin.argtypes = library.acc_copyout.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    numbers = (ctypes.c_int * 100)(*range(100))
    library.acc_copyin(numbers, 400)
    plugin.plugin_double(numbers, 100)
    if separate and numbers[99] != 99:
        sys.exit("FAIL: the region changed the host's memory")
    library.acc_copyout(numbers, 400)
    if list(numbers) != list(range(0, 200, 2)):
        sys.exit(f"FAIL: {list(numbers)}")
print("PASS")
