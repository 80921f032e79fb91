"""What CUDA can do here, tried in a process of its own, which the driver may end or hold up.

The argument is the memory in bytes that the machine has left. Each line that is written is a JSON
object of fields of `CudaProbe`; `stage` is what is done next.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import resource
import sys
from collections.abc import Callable
from contextlib import ExitStack
from ctypes import c_float, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

from orin_llm.device.probes.cuda_driver import (
    CudaError,
    Driver,
    MemoryAccess,
    MemoryLocation,
    MemoryProperties,
)
from orin_llm.device.probes.largest import largest_that_fits
from orin_llm.host.units import size_text

Tell = Callable[..., None]

MOST_BYTES = 8 << 30
STEP_BYTES = 16 << 20
SPARE_BYTES = 1 << 30  # of one common memory: the system and the desktop live there too
_SPARE_GPU_BYTES = 256 << 20
_ALLOCATION_S = 1.0
POOL_BYTES = 32 << 30  # what llama.cpp reserves
_COPY_BYTES = 256 << 20
_LEAST_COPY_BYTES = 32 << 20  # less could stay in a cache
_WARM_UP_MS, _COPY_MS = 100, 300  # clocks rise meanwhile

_INTEGRATED, _MAJOR, _MINOR, _VIRTUAL_MEMORY = 18, 75, 76, 102  # CUdevice_attribute
_PINNED, _ON_DEVICE = 1, 1  # CUmemAllocationType, CUmemLocationType
_MINIMUM, _RECOMMENDED = 0, 1  # CUmemAllocationGranularity_flags
_READ_AND_WRITE = 3  # CUmemAccess_flags
_DEFAULT_STREAM = None


def main() -> None:
    """Try everything; an error ends it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    report = os.dup(1)
    os.dup2(2, 1)  # the driver may print there

    def tell(**found: Any) -> None:
        os.write(report, json.dumps(found).encode() + b"\n")

    try:
        _probe(tell, int(sys.argv[1]))
    except CudaError as error:
        tell(problem=str(error.first))


def _probe(tell: Tell, available_bytes: int) -> None:
    tell(stage="starting")
    driver = Driver()
    version = c_int()
    driver.call("cuDriverGetVersion", version)
    tell(driver=f"{version.value // 1000}.{version.value % 1000 // 10}")
    driver.call("cuInit", 0)
    device = c_int()
    driver.call("cuDeviceGet", device, 0)
    integrated = bool(driver.attribute(device.value, _INTEGRATED))
    tell(integrated=integrated, **_identity(driver, device.value))
    with ExitStack() as stack:
        context = c_void_p()
        driver.call("cuDevicePrimaryCtxRetain", context, device.value)
        stack.callback(driver.call, "cuDevicePrimaryCtxRelease_v2", device.value)
        driver.call("cuCtxSetCurrent", context)
        tell(stage="trying virtual memory")
        tell(**_virtual_memory(driver, device.value))
        tell(stage="allocating")
        room = available_bytes - SPARE_BYTES if integrated else _free(driver) - _SPARE_GPU_BYTES
        found = _largest_block(driver, room)
        tell(**found)
        tell(stage="copying")
        copy_bytes = min(_COPY_BYTES, found.get("largest_bytes", 0) // 4)
        if copy_bytes >= _LEAST_COPY_BYTES:
            tell(copy_gb_s=_copy_gb_s(driver, copy_bytes))


def _identity(driver: Driver, device: int) -> dict[str, Any]:
    name = ctypes.create_string_buffer(256)
    driver.call("cuDeviceGetName", name, len(name), device)
    total = c_size_t()
    driver.call("cuDeviceTotalMem_v2", total, device)
    major, minor = driver.attribute(device, _MAJOR), driver.attribute(device, _MINOR)
    return {
        "name": name.value.decode(errors="replace"),
        "compute_capability": f"{major}.{minor}",
        "total_bytes": total.value,
    }


def _virtual_memory(driver: Driver, device: int) -> dict[str, Any]:
    none = "the driver says that this GPU has none"
    try:
        if not driver.attribute(device, _VIRTUAL_MEMORY):
            return {"vmm": False, "vmm_problem": none, "kv_grows": False, "kv_problem": none}
        _map_one_granule(driver, device, _RECOMMENDED, POOL_BYTES)
    except CudaError as error:
        found = {"vmm": False, "vmm_problem": str(error.first)}
    else:
        return {"vmm": True, "kv_grows": True}
    try:
        _map_one_granule(driver, device, _MINIMUM)
    except CudaError as error:
        return {**found, "kv_grows": False, "kv_problem": str(error.first)}
    return {**found, "kv_grows": True}


def _map_one_granule(driver: Driver, device: int, granularity: int, range_bytes: int = 0) -> None:
    """The calls by which llama.cpp's pool grows, and our KV cache, which has shorter ranges.

    `range_bytes` are the addresses that are reserved; 0: no more than memory is mapped at.
    """
    location = MemoryLocation(type=_ON_DEVICE, id=device)
    properties = MemoryProperties(type=_PINNED, location=location)
    size, handle, address = c_size_t(), c_uint64(), c_uint64()
    driver.call("cuMemGetAllocationGranularity", size, properties, granularity)
    range_bytes = range_bytes or size.value
    granule, whole = f" of {size_text(size.value)}", f" of {size_text(range_bytes)}"
    with ExitStack() as stack:
        driver.call("cuMemAddressReserve", address, range_bytes, 0, 0, 0, of=whole)
        stack.callback(driver.call, "cuMemAddressFree", address, range_bytes)
        driver.call("cuMemCreate", handle, size, properties, 0, of=granule)
        with ExitStack() as until_mapped:
            until_mapped.callback(driver.call, "cuMemRelease", handle)
            driver.call("cuMemMap", address, size, 0, handle, 0, of=granule)
            stack.callback(driver.call, "cuMemUnmap", address, size)
        access = MemoryAccess(location=location, flags=_READ_AND_WRITE)
        driver.call("cuMemSetAccess", address, size, access, 1, of=granule)


def _free(driver: Driver) -> int:
    free, total = c_size_t(), c_size_t()
    driver.call("cuMemGetInfo_v2", free, total)
    return free.value


def _largest_block(driver: Driver, room_bytes: int) -> dict[str, Any]:
    """`largest_bytes` in one block, and why it is less than was tried first."""
    most = min(MOST_BYTES, room_bytes) // STEP_BYTES * STEP_BYTES
    if most <= 0:
        spare = size_text(max(0, room_bytes))
        return {"alloc_problem": f"not tried: only {spare} of memory can be spared"}
    problems = []

    def fits(size: int) -> bool:
        try:
            with ExitStack() as stack:
                _allocate(driver, stack, size)
        except CudaError as error:
            problems.append(str(error.first))
            return False
        return True

    largest = largest_that_fits(fits, most, STEP_BYTES, _ALLOCATION_S)
    return {"largest_bytes": largest, "alloc_problem": problems[0] if problems else ""}


def _allocate(driver: Driver, stack: ExitStack, size: int) -> int:
    address = c_uint64()
    driver.call("cuMemAlloc_v2", address, size, of=f" of {size_text(size)}")
    stack.callback(driver.call, "cuMemFree_v2", address)
    return address.value


def _copy_gb_s(driver: Driver, size: int) -> float:
    """Memory traffic, read and written, of copies within the GPU's memory."""
    with ExitStack() as stack:
        source, target = _allocate(driver, stack, size), _allocate(driver, stack, size)
        start, end = _event(driver, stack), _event(driver, stack)

        def copy_ms(copies: int) -> float:
            driver.call("cuEventRecord", start, _DEFAULT_STREAM)
            for _ in range(copies):
                driver.call("cuMemcpyDtoDAsync_v2", target, source, size, _DEFAULT_STREAM)
            driver.call("cuEventRecord", end, _DEFAULT_STREAM)
            driver.call("cuEventSynchronize", end)
            elapsed = c_float()
            driver.call("cuEventElapsedTime", elapsed, start, end)
            return elapsed.value

        copies = 1
        while (warm_ms := copy_ms(copies)) < _WARM_UP_MS:
            copies *= 2
        copies = math.ceil(copies * _COPY_MS / warm_ms)
        return 2 * size * copies / copy_ms(copies) / 1e6


def _event(driver: Driver, stack: ExitStack) -> c_void_p:
    event = c_void_p()
    driver.call("cuEventCreate", event, 0)
    stack.callback(driver.call, "cuEventDestroy_v2", event)
    return event


if __name__ == "__main__":
    main()
