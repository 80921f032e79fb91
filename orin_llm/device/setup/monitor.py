"""The unit that watches the board: installed, and left to the user to switch on."""

from __future__ import annotations

from orin_llm.device.setup.change import State
from orin_llm.device.setup.system import System
from orin_llm.device.setup.units import FOLDER, UnitChange, word

# It reads sensors, and sockets of engines in /run/user and /tmp: with a /tmp or without a /run/user
# of its own it would find none. An alert's command may need the rights of programs such as sudo or
# sendmail, so those are not taken. KillMode: the command gets the time that the monitor gives it.
_MONITOR = """[Unit]
Description=Watch the board and the engines on it (orin-llm monitor)
After=nvpmodel.service jtop.service

[Service]
User={user}
EnvironmentFile=-/etc/orin-llm/monitor.env
ExecStart={program} monitor --headless --interval 5 $ARGS
Nice=10
Restart=on-failure
RestartSec=5
SuccessExitStatus=130 143
KillSignal=SIGTERM
KillMode=mixed
TimeoutStopSec=10
ProtectSystem=full
ProtectControlGroups=yes

[Install]
WantedBy=multi-user.target
"""


class MonitorChange(UnitChange):
    """The monitor as a service. Whether it is enabled and runs stays as it is."""

    name = "monitor"
    title = "a unit that logs the board and its alerts: systemctl enable --now orin-llm-monitor"
    unit = "orin-llm-monitor.service"
    file = f"{FOLDER}/{unit}"

    def __init__(self, program: str, user: str) -> None:
        self._program, self._user = program, user

    def text(self, system: System) -> str:
        return _MONITOR.format(program=word(self._program), user=self._user)

    def wanted(self, system: System, now: State) -> State:
        return {**now, "text": self.text(system)}
