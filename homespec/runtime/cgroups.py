"""Where this process stands in the control groups, and the plain files found there.

Every reader takes the root of a file tree, so that recorded machines can be read like the running one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A control group that limits this process: its own, or one above it.

    Attributes:
        directory: where its files are, below the root that was read.
        version: 1 or 2.
        own: whether the process is in this very group.
    """

    directory: Path
    version: int
    own: bool


def read_text(path: Path) -> str | None:
    """The stripped content of a small system file, or None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def read_integer(path: Path) -> int | None:
    """The whole number in a system file; None where the file is absent, or says `max` or another word."""
    try:
        return int(read_text(path) or "")
    except ValueError:
        return None


def control_groups(controller: str, root: Path = Path("/")) -> Iterator[ControlGroup]:
    """This process's group for a controller and all groups above it, own group first.

    Version 1 and version 2 may both be mounted, with the controller in either; both are walked, and the
    files that exist there tell which one rules. In a container the walk ends at what the container sees.

    Args:
        controller: such as `memory` or `cpu`.
        root: of the file tree.
    """
    memberships = _memberships(root)
    for mount_root, mount_point, version, controllers in _mounts(root):
        if version == 1 and controller not in controllers:
            continue
        path = memberships.get("" if version == 2 else controller)
        if path is None:
            continue
        top = root / mount_point.relative_to("/")
        directory = top
        # Outside a cgroup namespace the path starts at the host's root, while the mount may start below it.
        if ".." not in path.parts and path.is_relative_to(mount_root):
            directory = top / path.relative_to(mount_root)
        own = True
        while True:
            yield ControlGroup(directory, version, own)
            if directory == top:
                break
            directory, own = directory.parent, False


def _memberships(root: Path) -> dict[str, PurePosixPath]:
    """Controller -> path of this process's group; version 2 stands under an empty name."""
    groups: dict[str, PurePosixPath] = {}
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            groups[name] = PurePosixPath(path)
    return groups


def _mounts(root: Path) -> Iterator[tuple[PurePosixPath, PurePosixPath, int, list[str]]]:
    """(root within the hierarchy, mount point, version, controllers) of each mounted hierarchy."""
    for line in (read_text(root / "proc/self/mountinfo") or "").splitlines():
        # id parent device root mount-point options [tags...] - type source super-options (proc(5))
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        version = 2 if kind[0] == "cgroup2" else 1
        yield PurePosixPath(fields[3]), PurePosixPath(fields[4]), version, kind[2].split(",")
