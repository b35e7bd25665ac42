# An extension with regions, loaded by ctypes into a program that knows nothing of OpenACC.
# BUILD plugin=plugin.c
import ctypes
import sys

plugin = ctypes.CDLL(sys.argv[1])
numbers = (ctypes.c_int * 100)(*range(100))
for attempt in range(3):
    total = plugin.plugin_sum(numbers, 100)
    if total != 4950:
        sys.exit(f"FAIL: sum is {total}, expected 4950")
scaled = plugin.plugin_scale(14)
if scaled != 42:
    sys.exit(f"FAIL: scale gave {scaled}, expected 42")
print("PASS")
