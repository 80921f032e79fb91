"""The command itself: help without weight, exit codes, quiet pipes."""

from __future__ import annotations

import re
import shlex
import signal
import time
from pathlib import Path

import pytest
from processes import CLI, environment, interrupt, python, run, start

HEAVY = {"numpy", "gguf", "jinja2", "prompt_toolkit", "huggingface_hub"}
HEAVY |= {"orin_llm._native", "orin_llm.engine"}


def run_cli(*arguments: str, **variables: str) -> tuple[int, str, str]:
    done = run([*CLI, *arguments], env=environment(**variables))
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["--help"]]
    + [
        [name, "--help"]
        for name in ("run", "chat", "quantize", "imatrix", "perplexity", "compare", "bench")
    ],
    ids=" ".join,
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys\n"
        "from orin_llm.cli.main import main\n"
        f"sys.argv = ['orin-llm', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as leaving:\n    assert not leaving.code\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    done = run(python(script))
    assert done.returncode == 0, done.stderr
    assert "Usage: orin-llm" in done.stdout
    loaded = set(done.stderr.split())
    assert "orin_llm.cli.main" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_help_groups_the_commands() -> None:
    code, out, _ = run_cli("--help")
    assert code == 0
    places = [
        out.index(text) for text in ("Talk to a model", " run ", " chat ", "─ Models", " models  ")
    ]
    assert places == sorted(places)


def test_run_help_groups_the_flags_and_names_the_environment() -> None:
    code, out, _ = run_cli("run", "-h", COLUMNS="120")
    assert code == 0
    flags = ("--ctx-size", "-ngl", "ORIN_LLM_CTX_SIZE")
    for text in ("Prompt", "Answer", "Sampling", "Model", *flags):
        assert text in out


@pytest.mark.parametrize(
    "arguments",
    [["--no-such-flag"], ["no-such-command"], ["run", "--temp", "warm"], ["run", "extra"]],
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    code, out, err = run_cli(*arguments)
    assert (code, out) == (2, "")
    assert "Error" in err


def test_a_mistyped_command_is_hinted() -> None:
    assert "Did you mean 'chat'" in run_cli("chta")[2]


def test_the_version_is_the_project_s() -> None:
    code, out, _ = run_cli("--version")
    assert code == 0
    version = out.removeprefix("orin-llm ").rstrip()
    project = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    assert f'\nversion = "{version}"\n' in project


def test_completion_offers_the_commands_and_their_flags() -> None:
    def complete(words: str) -> str:
        return run_cli(
            _ORIN_LLM_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(words.count(" "))
        )[1]

    assert {"run", "chat", "models", "doctor"} <= set(complete("orin-llm ").split())
    assert "--top-k" in complete("orin-llm run --top")


def test_a_reader_that_leaves_early_is_no_error() -> None:
    done = run(["bash", "-c", f"{shlex.join(CLI)} run --help | head -1"])
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_output_that_cannot_be_written_makes_no_traceback(redirection: str, tmp_path: Path) -> None:
    log = "" if "2>" in redirection else f"2>{tmp_path}/err"
    script = f"{shlex.join(CLI)} run --help {redirection} {log}"
    code = run(["bash", "-c", script]).returncode
    assert code == (1 if "full" in redirection else 0)
    if log:
        written = (tmp_path / "err").read_text()
        assert written == ("error: No space left on device\n" if "full" in redirection else "")


def test_ctrl_c_while_the_program_starts_leaves_no_traceback_of_ours() -> None:
    for delay_ms in range(0, 400, 40):
        process = start([*CLI, "models", "list"])
        time.sleep(delay_ms / 1e3)
        _, err = interrupt(process)
        # Python prints one of its own where the signal comes before our first line.
        assert "orin_llm/cli/main.py" not in err
        assert process.returncode in (0, 130, -signal.SIGINT) or "Traceback" in err


def test_an_error_does_not_steer_the_terminal(tmp_path: Path) -> None:
    code, _, told = run_cli("estimate", str(tmp_path / "a\x1b[2Jb.gguf"))
    assert code == 3 and "\x1b" not in told and "a^[[2Jb.gguf" in told


@pytest.mark.parametrize("command", ["bench", "run", "tune"])
def test_help_cuts_no_flags_name_on_a_narrow_terminal(command: str) -> None:
    code, help_text, _ = run_cli(command, "--help", COLUMNS="60")
    assert code == 0 and "--gpu-layer" in help_text
    assert not re.search(r"--[\w,-]*…", help_text)
