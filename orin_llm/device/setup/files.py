"""Files that the setup installs as a whole: a template for services, a rule for the devices."""

from __future__ import annotations

from abc import abstractmethod

from orin_llm.device.setup.change import Change, State
from orin_llm.device.setup.system import System
from orin_llm.device.setup.units import word

# `orin-llm@serve` runs `orin-llm serve` with ARGS of /etc/orin-llm/serve.env. Page cache is memory
# that a GPU which shares it does not get: what can go goes before a model is loaded.
_SERVICE = """[Unit]
Description=orin-llm %i
Documentation=man:systemd.service(5)
Wants=network-online.target
After=network-online.target nvpmodel.service orin-llm-emc.service orin-llm-clocks.service

[Service]
User={user}
EnvironmentFile=-/etc/orin-llm/%i.env
ExecStartPre=-+/bin/sh -c 'sync; echo 3 >/proc/sys/vm/drop_caches'
ExecStart={program} %i $ARGS
Restart=on-failure
RestartSec=5
KillSignal=SIGINT
TimeoutStopSec=30
UnsetEnvironment=GGML_CUDA_ENABLE_UNIFIED_MEMORY

[Install]
WantedBy=multi-user.target
"""
# debugfs is root's alone, and made anew at each boot. The rule runs when the GPU's clock appears.
_RULE = """# The group video may read the memory's clock (orin-llm setup).
ACTION=="add", SUBSYSTEM=="devfreq", KERNEL=="17000000.*", RUN+="/bin/sh -c '\\
cd /sys/kernel/debug && chgrp video . bpmp/debug/clk/emc/rate bpmp/debug/clk/emc/max_rate && \\
chmod 0710 . && chmod 0440 bpmp/debug/clk/emc/rate bpmp/debug/clk/emc/max_rate'"
"""


class FileChange(Change):
    """A file, and what makes the system read it. State: `text` (None: no file)."""

    reload: tuple[tuple[str, ...], ...]

    @abstractmethod
    def text(self) -> str:
        """What it is to hold."""

    def read(self, system: System) -> State:
        return {"text": system.read(self.file)}

    def wanted(self, system: System, now: State) -> State:
        return {"text": self.text()}

    def write(self, system: System, state: State) -> None:
        if state["text"] is None:
            system.remove(self.file)
        else:
            system.write(self.file, str(state["text"]))
        for command in self.reload:
            system.run(*command)


class ServiceChange(FileChange):
    """The template of services: `systemctl enable --now orin-llm@NAME` runs `orin-llm NAME`."""

    name = "service"
    title = "a unit for commands of the toolkit that run for long: orin-llm@NAME"
    file = "/etc/systemd/system/orin-llm@.service"
    reload = (("systemctl", "daemon-reload"),)

    def __init__(self, program: str, user: str) -> None:
        self._program, self._user = program, user

    def text(self) -> str:
        return _SERVICE.format(program=word(self._program), user=self._user)


class RuleChange(FileChange):
    """A udev rule with which the memory's clock can be read without being root."""

    name = "udev"
    title = "let members of the group video read the memory's clock"
    file = "/etc/udev/rules.d/60-orin-llm.rules"
    reload = (
        ("udevadm", "control", "--reload"),
        ("udevadm", "trigger", "--action=add", "--subsystem-match=devfreq"),
    )

    def text(self) -> str:
        return _RULE

    def waits_for_reboot(self, system: System, state: State) -> str:
        debugfs = system.path("/sys/kernel/debug")
        opened = debugfs.exists() and debugfs.stat().st_mode & 0o010
        if state["text"] is None and opened:
            return "rights to read the memory's clock (the group video has them until then)"
        return ""
