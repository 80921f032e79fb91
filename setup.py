"""Everything static is in pyproject.toml; this hands the extension module to CMake."""

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from native.errors import BuildError
from native.module import build_module
from orin_llm.errors import OrinError


class BuildNative(build_ext):
    """Builds with scripts/native instead of setuptools' own compiler calls."""

    def build_extension(self, ext: Extension) -> None:
        try:
            build_module(Path(self.get_ext_fullpath(ext.name)))
        except (BuildError, OrinError) as error:
            sys.exit(f"error: {error}")


setup(
    ext_modules=[Extension("orin_llm._native", sources=[])],
    cmdclass={"build_ext": BuildNative},
)
