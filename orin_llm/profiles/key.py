"""What a profile is for: the machine as it was set, the model, and the program's version."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orin_llm import __version__
from orin_llm.errors import UsageError
from orin_llm.models.names import derive

if TYPE_CHECKING:
    from orin_llm.device.stamp import Stamp

_WORDS = {
    "board": "the board",
    "module": "the module",
    "mode": "the power mode",
    "gpu_units": "the GPU units that are on",
    "emc_cap_mhz": "the memory's clock",
    "gpu": "the GPU",
    "cpu": "the processor",
    "cores": "the cores",
    "fingerprint": "the model's weights",
    "version": "the version of orin-llm",
}
_UNITS = {"emc_cap_mhz": " MHz", "gpu_units": " TPCs"}


@dataclass(frozen=True)
class ProfileKey:
    """Everything that the best settings depend on; None where nothing tells, or there is none.

    Attributes:
        board: the machine's name. Firmware and carrier boards set it: where the module is known
            it is for people, and not compared.
        module: its part number, such as `p3701-0005`.
        mode: the power mode, by name.
        gpu_units: TPCs that are on.
        emc_cap_mhz: the highest clock that the memory may have. Only root can read what caps it in
            every case: where one side does not know, it is not compared.
        gpu: the GPU that computes; None: the processor does.
        cpu: the processor's name.
        cores: that the program may use.
        model: its name, for people; the fingerprint is compared.
        fingerprint: of the model's file (`engine.fingerprint`).
        version: of orin-llm.
    """

    board: str | None
    module: str | None
    mode: str | None
    gpu_units: int | None
    emc_cap_mhz: int | None
    gpu: str | None
    cpu: str | None
    cores: int | None
    model: str
    fingerprint: str
    version: str = __version__

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


@dataclass(frozen=True)
class Difference:
    """A field of a key that is not as it is here.

    Attributes:
        field: its name.
        there, here: in the profile, and on this machine.
    """

    field: str
    there: str | int | None
    here: str | int | None

    @property
    def text(self) -> str:
        """`the power mode (MAXN, here MODE_30W)`."""
        if self.field == "fingerprint":
            return _WORDS[self.field]  # the figures tell nobody anything
        there, here = (self._written(value) for value in (self.there, self.here))
        return f"{_WORDS[self.field]} ({there}, here {here})"

    def _written(self, value: str | int | None) -> str:
        return "none" if value is None else f"{value}{_UNITS.get(self.field, '')}"


def differences(there: ProfileKey, here: ProfileKey) -> tuple[Difference, ...]:
    """What keeps a profile with the key `there` from being one for `here`; empty: nothing."""
    passed_over = {"model"}
    if there.module is not None and there.module == here.module:
        passed_over.add("board")
    if None in (there.emc_cap_mhz, here.emc_cap_mhz):
        passed_over.add("emc_cap_mhz")
    pairs = ((f.name, getattr(there, f.name), getattr(here, f.name)) for f in fields(ProfileKey))
    return tuple(
        Difference(name, a, b) for name, a, b in pairs if a != b and name not in passed_over
    )


def key_of(model: Path, machine: ProfileKey) -> ProfileKey:
    """The key of a model on a machine.

    Args:
        model: a GGUF file, or the first one of a split model.

    Raises:
        ModelFileError: the file is missing or damaged.
    """
    from orin_llm.engine.fingerprint import model_fingerprint

    return replace(machine, model=model_name(model), fingerprint=model_fingerprint(model))


def machine_key(stamp: Stamp, *, on_gpu: bool) -> ProfileKey:
    """The key of a machine as it is set, without a model.

    Args:
        on_gpu: whether the engine computes on its GPU.
    """
    cap = stamp.emc_cap_mhz
    return ProfileKey(
        board=stamp.board,
        module=stamp.module,
        mode=stamp.power_mode,
        gpu_units=stamp.gpu_units if on_gpu else None,
        emc_cap_mhz=None if cap is None else round(cap),
        gpu=stamp.gpu if on_gpu else None,
        cpu=stamp.cpu,
        cores=stamp.cores,
        model="",
        fingerprint="",
    )


def model_name(model: Path) -> str:
    """The name that people know a model by: that of the store, else one made of the file's."""
    if (model.parent / "manifest.json").is_file():
        return model.parent.name
    try:
        return derive(model.name)
    except UsageError:  # no letter or digit in it
        return "model"
