"""CUDA's driver API through ctypes: no toolkit is needed, only the driver's own library."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

LIBRARY = "libcuda.so.1"
_STUB_LIBRARY = 34  # CUDA_ERROR_STUB_LIBRARY
_VERSION_SUFFIX = "_v2"  # of names in the library; cuda.h has macros without it


class MemoryLocation(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = (("type", c_int), ("id", c_int))


class MemoryProperties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", c_int),
        ("requested_handle_types", c_int),
        ("location", MemoryLocation),
        ("win32_handle_metadata", c_void_p),
        ("flags", c_char * 8),
    )


class MemoryAccess(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", MemoryLocation), ("flags", c_int))


# Device addresses and handles of memory are c_uint64; contexts, streams and events c_void_p.
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDeviceTotalMem_v2": (POINTER(c_size_t), c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemGetAllocationGranularity": (POINTER(c_size_t), POINTER(MemoryProperties), c_int),
    "cuMemCreate": (POINTER(c_uint64), c_size_t, POINTER(MemoryProperties), c_uint64),
    "cuMemRelease": (c_uint64,),
    "cuMemAddressReserve": (POINTER(c_uint64), c_size_t, c_size_t, c_uint64, c_uint64),
    "cuMemAddressFree": (c_uint64, c_size_t),
    "cuMemMap": (c_uint64, c_size_t, c_size_t, c_uint64, c_uint64),
    "cuMemUnmap": (c_uint64, c_size_t),
    "cuMemSetAccess": (c_uint64, c_size_t, POINTER(MemoryAccess), c_size_t),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuEventDestroy_v2": (c_void_p,),
}


class CudaError(Exception):
    """A call of the driver that failed: `cuMemAlloc of 1.07 GB: CUDA_ERROR_OUT_OF_MEMORY`."""

    @property
    def first(self) -> CudaError:
        """The failure that this one followed from, as where memory was to be given back then."""
        before = self.__context__
        return before.first if isinstance(before, CudaError) else self


class Driver:
    """The driver's library."""

    def __init__(self) -> None:
        """Load it.

        Raises:
            CudaError: it is not there, or something it needs is not.
        """
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            why = str(error).removeprefix(f"{LIBRARY}: ")
            raise CudaError(f"no NVIDIA driver ({LIBRARY}) can be loaded: {why}") from None

    def call(self, symbol: str, *arguments: Any, of: str = "") -> None:
        """Call a function by its name in the library. `of` tells in an error what it was for.

        Raises:
            CudaError: it failed, or this driver has no such function.
        """
        shown = symbol.removesuffix(_VERSION_SUFFIX) + of
        try:
            function = getattr(self._library, symbol)
        except AttributeError:
            raise CudaError(f"{shown}: this driver has no such call") from None
        function.argtypes = _SIGNATURES[symbol]
        status = function(*arguments)
        if status != 0:
            raise CudaError(f"{shown}: {self._error_name(status)}")

    def attribute(self, device: int, number: int) -> int:
        """A CUdevice_attribute of a device."""
        value = c_int()
        self.call("cuDeviceGetAttribute", value, number, device)
        return value.value

    def _error_name(self, status: int) -> str:
        if status == _STUB_LIBRARY:  # which names no errors
            return "a library to link with, such as CUDA's stubs/libcuda.so, stands for the driver"
        name = c_char_p()
        self._library.cuGetErrorName(c_int(status), ctypes.byref(name))
        return (name.value or f"error {status}".encode()).decode(errors="replace")
