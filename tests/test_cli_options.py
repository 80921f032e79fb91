"""Flags say what the engine does, and the environment mirrors each of them."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Annotated, get_args, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from orin_llm.cli.answer_options import AnswerOptions, SamplingOptions
from orin_llm.cli.bench_options import EnginesOptions, WorkloadOptions
from orin_llm.cli.chat import chat
from orin_llm.cli.imatrix_options import CollectOptions
from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.options import EngineOptions, HooksFlag, flag
from orin_llm.cli.run import run
from orin_llm.cli.tune_options import FixedOptions
from orin_llm.cli.window_options import ComputeOptions, TextOptions
from orin_llm.engine.config import HOOK_NAMES, EngineConfig, SamplingParams
from orin_llm.errors import UsageError
from orin_llm.quality.imatrix_collect import SAVE_EVERY
from orin_llm.quality.windows import LEAST_WINDOW, WINDOW_TOKENS


def test_flag_defaults_are_the_engines() -> None:
    assert EngineOptions().config() == EngineConfig()
    assert SamplingOptions().params() == SamplingParams()


def test_defaults_of_windows_are_those_of_the_library() -> None:
    assert TextOptions().ctx_size == WINDOW_TOKENS
    assert ComputeOptions().config(WINDOW_TOKENS, "m") == EngineConfig(n_ctx=WINDOW_TOKENS)
    assert CollectOptions().output_frequency == SAVE_EVERY
    for options in (TextOptions, CollectOptions):
        assert get_type_hints(options, include_extras=True)["ctx_size"].__metadata__[0].min == (
            LEAST_WINDOW
        )


def test_the_flag_for_hooks_names_them_all() -> None:
    parameter = get_args(HooksFlag)[1]
    assert f"Names: {', '.join(HOOK_NAMES)}." in parameter.help


def test_flags_reach_the_engine() -> None:
    options = EngineOptions(
        ctx_size=64, threads=3, gpu_layers=0, kv_type="q8_0", chunk_size=32, hooks="none"
    )
    config = options.config()
    assert (config.n_ctx, config.threads, config.gpu_layers) == (64, 3, 0)
    assert (config.kv_type, config.chunk_size, config.hooks.enabled) == ("q8_0", 32, frozenset())
    config = EngineOptions(cpus="0,1", flash="on").config()
    assert (config.cpus, config.flash_attention) == ("0-1", "on")
    assert ComputeOptions(flash="off").config(64, "m").flash_attention == "off"
    sampling = SamplingOptions(0.1, 2, 0.3, 0.4, 5, 1.6, 0.7, 0.8, "llama").params()
    assert sampling == SamplingParams(
        temperature=0.1,
        top_k=2,
        top_p=0.3,
        min_p=0.4,
        seed=5,
        repeat_penalty=1.6,
        frequency_penalty=0.7,
        presence_penalty=0.8,
        order="llama",
    )


def mirrors_of(group: type) -> dict[str, str]:
    hints = get_type_hints(group, include_extras=True).items()
    return {name: hint.__metadata__[0].envvar for name, hint in hints if name != "given"}


@pytest.mark.parametrize("group", [EnginesOptions, FixedOptions, ComputeOptions])
def test_a_setting_of_the_engine_has_one_mirror_in_every_command(group: type) -> None:
    own, of_engines = mirrors_of(group), mirrors_of(EngineOptions)
    assert len(own.keys() & of_engines.keys()) > 5
    assert all(own[name] == of_engines[name] for name in own.keys() & of_engines.keys())


def test_the_text_of_a_prompt_is_no_length_of_it() -> None:
    mirrors = mirrors_of(WorkloadOptions)
    assert mirrors["prompt_tokens"] == "ORIN_LLM_PROMPT_TOKENS"
    assert mirrors["max_tokens"] == "ORIN_LLM_MAX_TOKENS"


@pytest.mark.parametrize("command", [run, chat])
def test_every_flag_has_its_own_environment_mirror(command: object) -> None:
    mirrors = []
    for parameter in inspect.signature(command).parameters.values():  # type: ignore[arg-type]
        if parameter.annotation is typer.Context:
            continue
        (option,) = get_args(parameter.annotation)[1:]
        mirrors.append(option.envvar)
        assert option.envvar.startswith("ORIN_LLM_")
        declared = "/".join([str(option.default), *option.param_decls]).split("/")
        name = option.envvar.removeprefix("ORIN_LLM_").replace("_", "-").lower()
        assert f"--{name}" in declared
    assert len(set(mirrors)) == len(mirrors) > 15


@pytest.mark.parametrize("make", [EngineOptions, EnginesOptions])
def test_choices_of_kernels_reach_the_engine(
    make: type[EngineOptions] | type[EnginesOptions],
) -> None:
    def config(kernels: str | None) -> EngineConfig:
        options = make(kernels=kernels)
        return options.config() if isinstance(options, EngineOptions) else options.configs()[0]

    assert config("product_splits=2,vector_rows=1").kernels.chosen == {
        "product_splits": 2,
        "vector_rows": 1,
    }
    assert config(None) == EngineConfig()
    for wrong in ("", "rows=1"):
        with pytest.raises(UsageError, match="known choices are vector_tokens"):
            config(wrong)


def test_the_answer_limit_is_positive_or_minus_one() -> None:
    assert AnswerOptions().limit() is None
    assert AnswerOptions(max_tokens=-1).limit() is None
    assert AnswerOptions(max_tokens=7).limit() == 7
    for wrong in (0, -2):
        with pytest.raises(UsageError, match="max_tokens"):
            AnswerOptions(max_tokens=wrong).limit()


def test_an_empty_stop_string_is_refused() -> None:
    assert AnswerOptions(stop=["a", "b c"]).stops() == ("a", "b c")
    with pytest.raises(UsageError, match="stop string is empty"):
        AnswerOptions(stop=["a", ""]).stops()


@dataclasses.dataclass(frozen=True)
class Size:
    width: Annotated[int, flag("-w", "--width", panel="Size", help="Width.")] = 3
    name: Annotated[str | None, flag("--name", panel="Size", help="Name.")] = None


def test_option_groups_become_flags_and_come_back_filled() -> None:
    seen: list[tuple[bool, str | None, Size]] = []

    @with_option_groups
    def command(
        size: Size,
        loud: Annotated[bool, flag("--loud", panel="Other", help="Loud.")] = False,
        colour: Annotated[str | None, flag("-k", "--colour", panel="Other", help="Colour.")] = None,
    ) -> None:
        """A command."""
        seen.append((loud, colour, size))

    app = typer.Typer()
    app.command()(command)
    runner = CliRunner()
    assert runner.invoke(app, []).exit_code == 0
    given = ["-w", "5", "--loud", "-k", "red", "--name", "x"]
    assert runner.invoke(app, given).exit_code == 0
    assert runner.invoke(app, [], env={"ORIN_LLM_WIDTH": "9"}).exit_code == 0
    assert seen == [(False, None, Size()), (True, "red", Size(5, "x")), (False, None, Size(9))]
    assert runner.invoke(app, ["--width", "wide"]).exit_code == 2
