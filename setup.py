"""Everything static is in pyproject.toml; this hands the extension module to CMake."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from check_python import check_python

check_python()

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

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
    """Puts what ships from `calibration` into the package; an editable install reads the
    checkout's."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self._ship("texts", "quality/shipped_texts")
            self._ship("profiles", "profiles/shipped")
            self.copy_file(
                str(ROOT / "docs" / "troubleshooting.md"),
                str(Path(self.build_lib, "orin_llm", "explain", "troubleshooting.md")),
            )

    def _ship(self, source: str, place: str) -> None:
        folder = Path(self.build_lib, "orin_llm", place)
        self.mkpath(str(folder))
        self.copy_tree(str(ROOT / "calibration" / source), str(folder))


setup(
    ext_modules=[Extension("orin_llm._native", sources=[])],
    cmdclass={"build_ext": BuildNative, "build_py": BuildPackage},
)
