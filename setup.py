"""Everything static is in pyproject.toml; this hands the extension module to CMake."""

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

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


class BuildPackage(build_py):
    """Puts the texts that ship into the package; an editable install reads the checkout's."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            texts = Path(self.build_lib, "orin_llm", "quality", "shipped_texts")
            self.mkpath(str(texts))
            self.copy_tree(str(ROOT / "calibration" / "texts"), str(texts))


setup(
    ext_modules=[Extension("orin_llm._native", sources=[])],
    cmdclass={"build_ext": BuildNative, "build_py": BuildPackage},
)
