"""Engines in the log of `orin-llm monitor --headless`: while they run, stand still and end."""

from __future__ import annotations

import signal
from pathlib import Path

from headless_monitor import QUICK, monitor
from monitor_support import ask, engine_process


def test_an_engine_is_logged_while_it_runs_and_its_alerts_end_with_it(
    tmp_path: Path, tiny_model: Path
) -> None:
    config = tmp_path / "monitor.toml"
    config.write_text("[ttft_ms]\nabove = 1e-6\nwindow = 2\n[tpot_ms]\nenabled = false")
    folder = tmp_path / "run"
    folder.mkdir()
    arguments = (*QUICK, "--source", "procfs", "--config", str(config))
    with monitor(folder, *arguments) as watched:
        with engine_process(tiny_model, folder) as process:
            sample = watched.until(lambda line: bool(line["engines"]))
            assert sample["engines"][0]["pid"] == process.pid
            assert sample["engines"][0]["ttft_ms"] is None and sample["alerts"] == []
            for _ in range(2):
                ask(process, 5)
            sample = watched.until(lambda line: bool(line["alerts"]))
            (engine,), (alert,) = sample["engines"], sample["alerts"]
            assert engine["answers"] == 2 and engine["ttft_ms"] == alert["value"] > 0
            assert (alert["rule"], alert["subject"]) == ("ttft_ms", engine["name"])
            process.kill()
            sample = watched.until(lambda line: not line["engines"])
        assert [alert["rule"] for alert in sample["alerts"]] == ["engine_lost"]
        assert watched.events == ["raised ttft_ms", "cleared ttft_ms", "raised engine_lost"]
        assert watched.end() == 0


def test_a_stopped_engine_is_an_alert_until_it_goes_on_and_a_closed_one_is_none(
    tmp_path: Path, tiny_model: Path
) -> None:
    folder = tmp_path / "run"
    with monitor(folder, *QUICK, "--source", "procfs") as watched:
        with engine_process(tiny_model, folder) as process:
            watched.until(lambda line: bool(line["engines"]))
            process.send_signal(signal.SIGSTOP)
            sample = watched.until(lambda line: bool(line["alerts"]))
            assert sample["alerts"][0]["rule"] == "engine_lost" and len(sample["engines"]) == 1
            assert "has said nothing for" in sample["alerts"][0]["text"]
            process.send_signal(signal.SIGCONT)
            watched.until(lambda line: not line["alerts"])
            assert watched.events == ["raised engine_lost", "cleared engine_lost"]
            process.communicate("")
            watched.until(lambda line: not line["engines"])
            sample = watched.until(lambda line: True)
            assert sample["alerts"] == [] and sample["problems"] == {}
        assert watched.end() == 0 and len(watched.events) == 2
