"""Prints what CUDA says of the first GPU: in a process of its own, which may be confined to a part.

A context is made first: what MPS leaves of a GPU is seen from inside of one.
"""

from __future__ import annotations

import ctypes
import json
from ctypes import c_int, c_void_p

from orin_llm.device.probes.cuda_driver import CudaError, Driver

# CUdevice_attribute
_NUMBERS = {
    "multiprocessors": 16,
    "clock_khz": 13,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "integrated": 18,
}
_MAJOR, _MINOR = 75, 76


def main() -> None:
    try:
        driver = Driver()
        driver.call("cuInit", 0)
        version, device, context = c_int(), c_int(), c_void_p()
        driver.call("cuDriverGetVersion", version)
        driver.call("cuDeviceGet", device, 0)
        driver.call("cuDevicePrimaryCtxRetain", context, device.value)
        found = {name: driver.attribute(device.value, n) for name, n in _NUMBERS.items()}
        driver.call("cuDevicePrimaryCtxRelease_v2", device.value)
        name = ctypes.create_string_buffer(256)
        driver.call("cuDeviceGetName", name, len(name), device.value)
        major, minor = (driver.attribute(device.value, n) for n in (_MAJOR, _MINOR))
        number = version.value
        words = {
            "name": name.value.decode(errors="replace"),
            "compute_cap": f"{major}.{minor}",
            "driver_cuda": f"{number // 1000}.{number % 1000 // 10}",
        }
        print(json.dumps({**words, **found}))
    except CudaError as error:
        print(json.dumps({"problem": str(error.first)}))


if __name__ == "__main__":
    main()
