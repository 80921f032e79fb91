"""Which profile a command uses, what it tells of it, and what goes before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from fakes import boards
from typer.testing import CliRunner, Result

from orin_llm.cli.bench_options import EnginesOptions
from orin_llm.cli.option_groups import with_option_groups
from orin_llm.cli.options import EngineOptions
from orin_llm.cli.window_options import ComputeOptions
from orin_llm.device.stamp import read_stamp
from orin_llm.engine import EngineConfig
from orin_llm.errors import UsageError
from orin_llm.profiles.file import profile_text
from orin_llm.profiles.here import key_here
from orin_llm.profiles.key import key_of, machine_key
from orin_llm.profiles.profile import Profile
from orin_llm.profiles.store import ProfileStore

VALUES: dict[str, int | str] = {"chunk_size": 128, "threads": 3, "kv_type": "q8_0", "max_batch": 5}


class Command:
    """A command with the flags of engines; `configs` are what it would have made."""

    def __init__(self, model: Path, store: ProfileStore) -> None:
        self.model = model
        self.store = store
        self.key = key_here(model)
        self.configs: list[EngineConfig] = []

    def __call__(self, *flags: str, quiet: bool = False, **environment: str) -> Result:
        return self._invoke(lambda o: [o.config(quiet=quiet)], EngineOptions, flags, environment)

    def bench(self, *flags: str) -> Result:
        return self._invoke(lambda o: o.configs(), EnginesOptions, flags, {})

    def _invoke(
        self,
        configs: Callable[[Any], Any],
        group: type[Any],
        flags: tuple[str, ...],
        environment: dict[str, str],
    ) -> Result:
        def run(engine: Any) -> None:
            self.configs = list(configs(engine))

        run.__annotations__["engine"] = group
        app = typer.Typer()
        app.command()(with_option_groups(run))
        arguments = ["-m", str(self.model), *flags]
        return CliRunner().invoke(app, arguments, env=environment, catch_exceptions=True)

    @property
    def settings(self) -> dict[str, Any]:
        (config,) = self.configs
        return {name: getattr(config, name) for name in VALUES}


@pytest.fixture
def command(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("ORIN_LLM_PROFILES", str(tmp_path))
    command = Command(tiny_model, ProfileStore())
    command.store.save("tuned", Profile(command.key, VALUES))
    return command


DEFAULTS = {name: getattr(EngineConfig(), name) for name in VALUES}


def test_the_profile_that_fits_is_used_and_told_in_one_line(command: Command) -> None:
    result = command()
    assert command.settings == VALUES
    assert result.stderr == (
        "profile tuned: chunk_size 128, threads 3, kv_type q8_0, max_batch 5\n"
    )
    assert result.stdout == ""


def test_a_quiet_command_uses_it_without_a_word(command: Command) -> None:
    assert command(quiet=True).output == ""
    assert command.settings == VALUES


def test_flags_and_environment_win_even_where_they_say_the_default(command: Command) -> None:
    result = command("--chunk-size", "512", ORIN_LLM_THREADS="0")
    assert command.settings == {**VALUES, "chunk_size": 512, "threads": 0}
    assert result.stderr == (
        "profile tuned: kv_type q8_0, max_batch 5; chunk_size, threads as given\n"
    )


def test_a_profile_whose_search_did_not_finish_says_so(command: Command) -> None:
    evidence = {"decision": "unfinished"}
    command.store.save("tuned", Profile(command.key, VALUES, evidence=evidence))
    assert command().stderr.endswith("; the search for it did not finish\n")


def test_no_profile_takes_the_defaults(command: Command) -> None:
    assert command("--no-profile").output == ""
    assert command.settings == DEFAULTS


def test_the_command_line_wins_over_the_environment(command: Command) -> None:
    command("--no-profile", ORIN_LLM_PROFILE="tuned")
    assert command.settings == DEFAULTS
    command("--profile", "tuned", ORIN_LLM_NO_PROFILE="1")
    assert command.settings == VALUES
    result = command("--profile", "tuned", "--no-profile")
    assert isinstance(result.exception, UsageError)


def test_nothing_is_said_where_there_are_no_profiles(command: Command) -> None:
    command.store.remove("tuned")
    assert command().output == ""
    assert command.settings == DEFAULTS


@pytest.mark.parametrize("field", ["cores", "mode", "version", "gpu"])
def test_a_profile_of_another_setup_is_offered_and_not_applied(
    command: Command, field: str
) -> None:
    other = replace(command.key, **{field: 7 if field == "cores" else "x"})
    command.store.save("tuned", Profile(other, VALUES))
    result = command()
    assert command.settings == DEFAULTS
    assert result.stderr.startswith("profile: none for this setup. tuned differs in ")
    assert result.stderr.endswith("; --profile tuned takes it all the same\n")


def test_a_profile_that_is_named_is_used_and_what_differs_is_told(
    command: Command, tmp_path: Path
) -> None:
    other = Profile(replace(command.key, cores=99), {"chunk_size": 64})
    file = tmp_path / "elsewhere.toml"
    file.write_text(profile_text(other))
    result = command("--profile", str(file))
    assert command.settings == {**DEFAULTS, "chunk_size": 64}
    assert "It was not tuned for this setup: it differs in the cores (99, here " in result.stderr


@pytest.mark.parametrize("wanted", ["none", "", "../x.toml", "Ä"])
def test_a_profile_that_is_not_there_is_an_error(command: Command, wanted: str) -> None:
    assert isinstance(command("--profile", wanted).exception, UsageError)


def test_choices_of_kernels_are_taken_and_given_ones_replace_them_all(command: Command) -> None:
    kernels = {"kernels": "vector_rows=4,product_tokens=0"}
    command.store.save("tuned", Profile(command.key, kernels))
    command()
    assert command.configs[0].kernels.chosen == {"vector_rows": 4, "product_tokens": 0}
    command("--kernels", "vector_rows=2")
    assert command.configs[0].kernels.chosen == {"vector_rows": 2}


def test_a_damaged_profile_stops_no_command(command: Command) -> None:
    command.store.path("tuned").write_bytes(b"\xff")
    result = command()
    assert command.settings == DEFAULTS
    assert "tuned.toml is not UTF-8" in result.stderr


def test_without_the_gpu_or_with_a_part_of_it_another_profile_is_looked_for(
    command: Command,
) -> None:
    command("-ngl", "1")
    assert command.settings == DEFAULTS
    command("-ngl", "0")  # as on this machine, where no GPU computes
    assert command.settings == VALUES


def test_bench_takes_what_it_does_not_sweep_from_the_profile(command: Command) -> None:
    command.bench("--chunk-size", "64,256")
    assert [(c.chunk_size, c.threads, c.kv_type) for c in command.configs] == [
        (64, 3, "q8_0"),
        (256, 3, "q8_0"),
    ]


def test_what_judges_a_model_takes_a_profile_only_when_it_is_named(command: Command) -> None:
    model = str(command.model)
    assert ComputeOptions().config(64, model) == EngineConfig(n_ctx=64)
    config = ComputeOptions(profile="tuned", threads=2).config(64, model)
    assert (config.chunk_size, config.kv_type, config.threads, config.max_batch) == (
        128, "q8_0", 2, EngineConfig().max_batch,
    )  # fmt: skip


def test_the_key_of_a_board_is_its_module_mode_and_clocks(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = boards.jetson(tmp_path, boards.AGX_64_JP6)
    monkeypatch.setenv("PATH", machine.path)
    stamp = read_stamp(machine.root)
    stamp = replace(stamp, gpu="Orin")
    key = key_of(tiny_model, machine_key(stamp, on_gpu=True))
    assert (key.module, key.mode, key.gpu_units, key.emc_cap_mhz, key.gpu, key.model) == (
        "p3701-0005", "MODE_30W", 4, 3199, "Orin", "tiny",
    )  # fmt: skip
    without = machine_key(stamp, on_gpu=False)
    assert (without.gpu, without.gpu_units) == (None, None)
