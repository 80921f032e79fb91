"""One tuning run: what is tuned for what, on which machine, and where its files are."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from orin_llm.device.stamp import Stamp
from orin_llm.engine import EngineConfig
from orin_llm.errors import UsageError
from orin_llm.gguf.header import Header
from orin_llm.profiles.key import ProfileKey
from orin_llm.profiles.profile import TUNABLE
from orin_llm.tune.goal import Goal
from orin_llm.tune.knobs import Space
from orin_llm.tune.kv_quality import KvQuality, kv_qualities
from orin_llm.tune.plan import Plan
from orin_llm.tune.report_folder import ReportFolder
from orin_llm.tune.spaces import default_space
from orin_llm.tune.work import Work

KV_TYPE = "kv_type"


@dataclass(frozen=True)
class Job:
    """What a run is told.

    Attributes:
        model: the file; header: its own; typed_model: as the user named it.
        base: what is not tuned; kept: the fields of it that the user gave.
        only: the knobs that are tuned; None: all.
        name: of the profile.
    """

    model: Path
    typed_model: str
    header: Header
    base: EngineConfig
    kept: Set[str]
    goal: Goal
    work: Work
    plan: Plan
    key: ProfileKey
    stamp: Stamp
    only: Set[str] | None
    name: str
    folder: ReportFolder

    @property
    def wants_kv_types(self) -> bool:
        """Whether types of the KV cache are to be tried."""
        return KV_TYPE not in self.kept and (self.only is None or KV_TYPE in self.only)

    def space(self, qualities: list[KvQuality]) -> Space:
        """What is tuned.

        Raises UsageError where nothing is left, or `only` names what there is not.
        """
        types = [found.kv_type for found in qualities if found.is_allowed]
        whole = default_space(
            self.base, self.goal, self.work, on_gpu=self.key.gpu is not None, kv_types=types
        )
        names = [knob.name for knob in whole.knobs]
        unknown = (self.only or set()) - {*names, *self.kept, KV_TYPE}
        if unknown:
            raise UsageError(
                f"there is no setting {sorted(unknown)[0]!r} to tune here: {', '.join(names)}"
            )
        left = tuple(
            knob
            for knob in whole.knobs
            if knob.target not in self.kept and (self.only is None or knob.name in self.only)
        )
        if not left:
            raise UsageError("nothing is left to tune: every setting that there is was given")
        return Space(left, whole.allowed)

    def qualities(self, say: Callable[[str], None]) -> list[KvQuality]:
        """What types of the KV cache cost; known ones of an earlier session are not computed again.

        Raises:
            ModelFileError, OrinError: as `kv_qualities`.
        """
        if not self.wants_kv_types:
            return []
        bound = self.goal.constraints.max_perplexity_ratio
        file = self.folder.path / "kv_quality.json"
        about = {"fingerprint": self.key.fingerprint, "bound": bound, "base": self.base.kv_type}
        try:
            known = json.loads(file.read_text(encoding="utf-8"))
            if known["about"] == about:
                return [KvQuality(**entry) for entry in known["types"]]
        except (OSError, ValueError, KeyError, TypeError):  # none yet, or not ours
            pass
        found = kv_qualities(self.model, self.base, bound, say=say)
        self.folder.write_json(file.name, {"about": about, "types": [q.to_json() for q in found]})
        return found

    def about(self) -> dict[str, Any]:
        """What must be the same for a study to go on."""
        settings = {name: str(value) for name, value in vars(self.base).items()}
        settings["hooks"] = ",".join(sorted(self.base.hooks.enabled))
        settings["kernels"] = _kernels_text(self.base)
        return {**self.key.to_json(), "measured": work_text(self.work, self.goal), **settings}

    def fixed_values(self) -> dict[str, int | str]:
        """Settings that were given and belong into a profile."""
        plain = EngineConfig()
        values = {name: getattr(self.base, name) for name in TUNABLE if name in self.kept}
        values = {name: v for name, v in values.items() if v != getattr(plain, name)}
        if "kernels" in values:
            values["kernels"] = _kernels_text(self.base)
        return values

    def machine(self) -> dict[str, Any]:
        """Names and values of what it is measured on, for people and for the evidence."""
        from orin_llm.extension import load_extension
        from orin_llm.host.repository import commit

        build = load_extension().build_info()
        program = f"{build['version']}, llama.cpp {build['upstream_commit']}"
        stamp = {f.name: getattr(self.stamp, f.name) for f in fields(self.stamp)}
        return {
            **{name: value for name, value in stamp.items() if value is not None},
            "orin_llm": program,
            "commit": commit(Path(__file__).parents[1]),
        }


def _kernels_text(config: EngineConfig) -> str:
    return ",".join(f"{name}={value}" for name, value in config.kernels.chosen.items())


def work_text(work: Work, goal: Goal) -> str:
    """What is measured for a goal, in words."""
    prompts = work.prompts if goal.needs_prefill else work.prompts[-1:]
    parts = [f"prompts of {', '.join(map(str, prompts))} tokens"]
    if goal.needs_decode:
        parts.append(f"an answer of {work.answer}")
    if goal.needs_concurrent:
        streams = f"{work.streams} streams of {work.stream_prompt} and {work.stream_answer}"
        parts.append(streams)
    return ", ".join(parts)


def commands(job: Job, settings: Mapping[str, Any], typed: str) -> dict[str, str]:
    """What repeats a run and uses its result, by what it does.

    Args:
        settings: that were chosen, by fields of `EngineConfig`.
        typed: the command line that began it.
    """
    model, flags = shlex.quote(job.typed_model), flags_text(settings)
    answer = f"-p {job.work.prompts[-1]} -n {job.work.answer}"
    return {
        "Tune again": f"{typed} --fresh",
        "Use it here, by itself": f"orin-llm run -m {model} -p TEXT",
        "The same by flags (a batch limit has none)": f"orin-llm run -m {model} {flags} -p TEXT",
        "Measure it": f"orin-llm bench -m {model} {answer} --profile {job.name}",
        "Measure the defaults": f"orin-llm bench -m {model} {answer} --no-profile",
        "Take it to another board": f"orin-llm profile export {job.name} -o {job.name}.toml",
    }


_FLAGS = {
    "chunk_size": "--chunk-size",
    "page_size": "--page-size",
    "threads": "--threads",
    "cpus": "--cpus",
    "kv_type": "--kv-type",
    "kv_memory": "--kv-memory",
    "flash_attention": "--flash",
    "kernels": "--kernels",
}


def flags_text(settings: Mapping[str, Any]) -> str:
    """Settings as flags; what has none is left out."""
    return " ".join(
        f"{_FLAGS[name]} {value}" for name, value in settings.items() if name in _FLAGS and value
    )
