"""What a check is to do, made sure of before anything is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from orin_llm.accept.indicators import Indicator
from orin_llm.accept.shapes import Shapes
from orin_llm.accept.thresholds import Limit, Subject, Thresholds
from orin_llm.device.stamp import Stamp
from orin_llm.engine import EngineConfig
from orin_llm.engine.kv_memory import KvRoom
from orin_llm.engine.loaded_model import read_model_header
from orin_llm.errors import UsageError
from orin_llm.gguf.header import Header
from orin_llm.models.describe import count_text, parameters, quant
from orin_llm.quality.base_logits import BaseLogits
from orin_llm.quality.compare import Side


@dataclass(frozen=True)
class Plan:
    """A check of one model on one machine.

    Attributes:
        model: a GGUF file.
        config: as the model is to be delivered; its batch is that of the throughput shape.
        indicators: those that are wanted, in order.
        limits: of this machine and model, by criterion.
        stamp: of the machine.
        subject: what limits were looked up by.
        reference: what the perplexity is compared with; None: nothing is given.
        text: what both models foretell; None where the reference brings its tokens.
        root: stands for `/`.
    """

    model: Path
    config: EngineConfig
    indicators: tuple[Indicator, ...]
    shapes: Shapes
    limits: Mapping[str, Limit]
    stamp: Stamp
    subject: Subject
    reference: Side | BaseLogits | None = None
    text: str | None = None
    root: Path = Path("/")

    @property
    def no_limit(self) -> str:
        """Why a figure may not be judged, and what to do."""
        board = self.stamp.module or self.stamp.board
        return (
            f"no limit is set for {board} with {self.model_text}: set one (--thresholds FILE, or "
            "its flag)"
        )

    @property
    def model_text(self) -> str:
        """`smollm2 (Q4_1, 134.5 M)`."""
        subject = self.subject
        return f"{subject.models[0]} ({subject.quant}, {count_text(subject.parameters)})"


def subject_of(model: Path, header: Header, names: Sequence[str], stamp: Stamp) -> Subject:
    """A machine and a model, by all their names.

    Args:
        names: what the user called the model, and what the store does.
    """
    stated = header.metadata.get("general.name")
    known = [*names, model.name, model.stem, stated if isinstance(stated, str) else ""]
    machine = (stamp.module, stamp.board, stamp.gpu, stamp.cpu)
    return Subject(
        boards=tuple(name for name in machine if name),
        models=tuple(dict.fromkeys(name for name in known if name)),
        architecture=str(header.metadata.get("general.architecture", "")),
        quant=quant(header, model.name),
        parameters=parameters(header),
    )


def make_plan(
    model: Path,
    config: EngineConfig,
    indicators: tuple[Indicator, ...],
    thresholds: Thresholds,
    stamp: Stamp,
    names: Sequence[str] = (),
    **more: Any,
) -> Plan:
    """Find the limits, and make sure that every shape has room.

    Args:
        names: what else the model is called.
        more: other members of the plan.

    Raises:
        UsageError: a shape is longer than the context.
        ModelFileError: the model cannot be used.
        OrinError: there is not enough memory.
    """
    header = read_model_header(model)
    sized = replace(config, max_batch=thresholds.shapes.throughput.batch)
    subject = subject_of(model, header, names, stamp)
    plan = Plan(
        model, sized, indicators, thresholds.shapes, thresholds.limits(subject), stamp, subject,
        **more,
    )  # fmt: skip
    _require_room(plan, KvRoom.of(header, sized))
    return plan


def _require_room(plan: Plan, room: KvRoom) -> None:
    names = {indicator.name for indicator in plan.indicators}
    shapes = plan.shapes
    needed = {
        "ttft": shapes.ttft.prompt_tokens + shapes.ttft.max_tokens,
        "growth": shapes.growth.prompt_tokens + shapes.growth.max_tokens,
        "load": shapes.load.prompt_tokens + shapes.load.max_tokens,
        "pages": shapes.pages.prompt_tokens + shapes.pages.max_tokens,
        "rope": shapes.rope.max_tokens + 1,
        "throughput": shapes.throughput.prompt_tokens + shapes.throughput.max_tokens,
    }
    for name, tokens in needed.items():
        if name in names and tokens > room.n_ctx:
            raise UsageError(
                f"shape.{name} needs {tokens} tokens for one request and its answer, and there is "
                f"room for {room.n_ctx}: choose a larger {room.choice}, or a smaller shape "
                "(--thresholds FILE)"
            )
