"""apt with folders of its own and an empty list of what is installed: nothing of this system
changes, and no rights are needed. No script of a package runs.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from orin_llm.errors import DeviceUnavailable

# The hooks of some containers clean the system's folders.
CONFIGURATION = """\
APT::Architecture "arm64";
APT::Architectures {{"arm64";}};
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
"""


def prepare_apt(folder: Path, more: str = "") -> list[str]:
    """The command, with the folders that it needs.

    Args:
        more: of its configuration, over what is above.

    Raises:
        DeviceUnavailable: this is no Debian.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise DeviceUnavailable(
            "the emulated system is made of Debian's arm64 packages, and there is no apt-get:"
            " run this on Debian, or on an Arm machine"
        )
    (folder / "state/lists/partial").mkdir(parents=True)
    (folder / "cache/archives/partial").mkdir(parents=True)
    (folder / "status").touch()
    configuration = folder / "apt.conf"
    configuration.write_text((CONFIGURATION + more).format(folder=folder))
    return ["apt-get", "-qq", "-c", str(configuration)]


def run_packager(command: Sequence[str], needs: str, cwd: Path | None = None) -> str:
    """What apt or dpkg prints.

    Args:
        needs: what has to be there for it to work.

    Raises:
        DeviceUnavailable: it failed.
    """
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=cwd)
    if done.returncode != 0:
        said = "\n  ".join((done.stderr or done.stdout).strip().splitlines()[-6:])
        raise DeviceUnavailable(
            f"the emulated system's packages cannot be had: {command[0]} says\n  {said}\n"
            f"Needed: {needs}"
        )
    return done.stdout
