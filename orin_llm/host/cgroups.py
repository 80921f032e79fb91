"""The control groups around this process, whose limits all hold."""

from __future__ import annotations

from pathlib import Path


def group_folders(root: Path, controller: str) -> list[tuple[Path, bool]]:
    """Folder of each control group with `controller`, and whether it is cgroup v2 (else v1)."""
    folders = []
    try:
        lines = (root / "proc/self/cgroup").read_text(errors="replace").splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        v2 = controllers == ""
        if not v2 and controller not in controllers.split(","):
            continue
        base = root / "sys/fs/cgroup" / ("" if v2 else controller)
        # Inside a container the path may be the host's; then only the base exists.
        parts = [part for part in path.split("/") if part and part != ".." and "\0" not in part]
        for depth in range(len(parts) + 1):
            folders.append((base.joinpath(*parts[:depth]), v2))
    return folders
