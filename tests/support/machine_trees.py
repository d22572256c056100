"""File trees like /proc and /sys of home machines, with the values such machines report.

Each builder writes below a directory and returns it as the root for homespec's readers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

_CGROUP2_MOUNT = (
    "29 23 0:26 {root} /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw"
)
_CGROUP1_MOUNT = (
    "36 31 0:33 {root} /sys/fs/cgroup/{name} rw,nosuid,relatime shared:9 - cgroup cgroup rw,{name}"
)


def write(root: Path, name: str, text: object) -> None:
    """Writes one system file."""
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def add_cpu(
    root: Path, cpu: int, *, siblings: str, max_khz: int | None = None, capacity: int | None = None
) -> None:
    """One logical CPU: its core's CPUs in list format, its highest clock, its capacity."""
    directory = f"sys/devices/system/cpu/cpu{cpu}"
    write(root, f"{directory}/topology/thread_siblings_list", siblings)
    write(root, f"{directory}/topology/core_cpus_list", siblings)
    if max_khz is not None:
        write(root, f"{directory}/cpufreq/cpuinfo_max_freq", max_khz)
    if capacity is not None:
        write(root, f"{directory}/cpu_capacity", capacity)


def add_memory(
    root: Path,
    *,
    total: int,
    available: int,
    free: int,
    swap_total: int = 0,
    swap_free: int | None = None,
    swap_device: str = "/var/swap",
) -> None:
    """/proc/meminfo and /proc/swaps, from bytes; cached pages make up most of what is available, not free."""
    swap_free = swap_total if swap_free is None else swap_free
    rows = {
        "MemTotal": total,
        "MemFree": free,
        "MemAvailable": available,
        "Buffers": 30 * MIB,
        "Cached": max(0, available - free),
        "SwapCached": 0,
        "SwapTotal": swap_total,
        "SwapFree": swap_free,
    }
    write(
        root,
        "proc/meminfo",
        "\n".join(f"{name + ':':<16}{value // KIB:>8} kB" for name, value in rows.items()),
    )
    swaps = ["Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority"]
    if swap_total:
        kind = "partition" if swap_device.startswith("/dev/") else "file"
        swaps.append(f"{swap_device}  {kind}  {swap_total // KIB}  {(swap_total - swap_free) // KIB}  100")
    write(root, "proc/swaps", "\n".join(swaps))


def add_cgroup2(
    root: Path, groups: Mapping[str, Mapping[str, object]], *, own: str, mount_root: str = "/"
) -> None:
    """A version 2 hierarchy: directory below /sys/fs/cgroup -> files; `own` as /proc/self/cgroup says it."""
    write(root, "proc/self/cgroup", f"0::{own}")
    write(root, "proc/self/mountinfo", _CGROUP2_MOUNT.format(root=mount_root))
    for directory, files in groups.items():
        for name, value in files.items():
            write(root, f"sys/fs/cgroup/{directory}/{name}", value)


def add_cgroup1(
    root: Path, groups: Mapping[str, Mapping[str, object]], *, own: str, mount_root: str = "/"
) -> None:
    """Version 1 hierarchies cpu, cpuset and memory; the directories begin with the controller's name."""
    names = ("cpu", "cpuset", "memory")
    write(root, "proc/self/cgroup", "\n".join(f"{i}:{name}:{own}" for i, name in enumerate(names, 2)))
    mounts = (_CGROUP1_MOUNT.format(root=mount_root, name=name) for name in names)
    write(root, "proc/self/mountinfo", "\n".join(mounts))
    for directory, files in groups.items():
        for name, value in files.items():
            write(root, f"sys/fs/cgroup/{directory}/{name}", value)


def pi4(root: Path) -> Path:
    """Raspberry Pi 4, 4 GB, Raspberry Pi OS 12: memory controller off, 200 MB swap file."""
    for cpu in range(4):
        add_cpu(root, cpu, siblings=str(cpu), max_khz=1_800_000, capacity=1024)
    add_memory(root, total=3794 * MIB, available=3310 * MIB, free=2410 * MIB, swap_total=200 * MIB)
    session = "user.slice/user-1000.slice/session-3.scope"
    add_cgroup2(root, {session: {"cgroup.procs": "812", "cpu.max": "max 100000"}}, own=f"/{session}")
    write(root, "sys/class/thermal/thermal_zone0/type", "cpu-thermal")
    write(root, "sys/class/thermal/thermal_zone0/temp", 61_342)
    return root


def pi5(root: Path) -> Path:
    """Raspberry Pi 5, 8 GB."""
    for cpu in range(4):
        add_cpu(root, cpu, siblings=str(cpu), max_khz=2_400_000, capacity=1024)
    add_memory(root, total=8062 * MIB, available=7260 * MIB, free=6100 * MIB, swap_total=512 * MIB)
    add_cgroup2(root, {"": {"cgroup.procs": "1"}}, own="/user.slice/user-1000.slice/session-1.scope")
    return root


def pi5_2gb_zram(root: Path) -> Path:
    """Raspberry Pi 5, 2 GB, whose swap is compressed memory as large as the memory itself."""
    for cpu in range(4):
        add_cpu(root, cpu, siblings=str(cpu), max_khz=2_400_000, capacity=1024)
    add_memory(
        root,
        total=2016 * MIB,
        available=1480 * MIB,
        free=940 * MIB,
        swap_total=2016 * MIB,
        swap_free=1900 * MIB,
        swap_device="/dev/zram0",
    )
    add_cgroup2(root, {"": {"cgroup.procs": "1"}}, own="/user.slice/user-1000.slice/session-1.scope")
    return root


def rk3588(root: Path) -> Path:
    """Orange Pi 5, 16 GB: four Cortex-A55 and four Cortex-A76, of which two clock a little lower."""
    for cpu in range(4):
        add_cpu(root, cpu, siblings=str(cpu), max_khz=1_800_000, capacity=414)
    for cpu in range(4, 8):
        khz, capacity = (2_400_000, 1024) if cpu < 6 else (2_352_000, 1003)
        add_cpu(root, cpu, siblings=str(cpu), max_khz=khz, capacity=capacity)
    add_memory(
        root,
        total=15_960 * MIB,
        available=15_100 * MIB,
        free=13_900 * MIB,
        swap_total=7980 * MIB,
        swap_device="/dev/zram0",
    )
    add_cgroup2(root, {"": {"cgroup.procs": "1"}}, own="/")
    return root


def intel_hybrid(root: Path) -> Path:
    """Core i7-1260P mini-PC, 16 GB: four P cores with two threads (one pair favoured), eight E cores."""
    for core in range(4):
        for cpu in (2 * core, 2 * core + 1):
            add_cpu(
                root,
                cpu,
                siblings=f"{2 * core}-{2 * core + 1}",
                max_khz=4_700_000 if core == 1 else 4_600_000,
            )
    for cpu in range(8, 16):
        add_cpu(root, cpu, siblings=str(cpu), max_khz=3_400_000)
    add_memory(
        root,
        total=15_710 * MIB,
        available=13_050 * MIB,
        free=9100 * MIB,
        swap_total=2048 * MIB,
        swap_device="/swap.img",
    )
    add_cgroup2(root, {"": {"cgroup.procs": "1"}}, own="/user.slice/user-1000.slice/session-2.scope")
    return root


def smt_mini_pc(root: Path) -> Path:
    """Ryzen 5 5560U mini-PC, 16 GB: six cores with two threads each, as siblings n and n + 6."""
    for cpu in range(12):
        add_cpu(root, cpu, siblings=f"{cpu % 6},{cpu % 6 + 6}", max_khz=4_061_000)
    add_memory(
        root,
        total=15_330 * MIB,
        available=12_800 * MIB,
        free=8000 * MIB,
        swap_total=8192 * MIB,
        swap_device="/dev/nvme0n1p3",
    )
    add_cgroup2(root, {"": {"cgroup.procs": "1"}}, own="/user.slice/user-1000.slice/session-2.scope")
    return root


def docker(root: Path) -> Path:
    """`docker run --cpus 2.5 --memory 2g` on the SMT mini-PC; 700 MiB of page cache is charged to it."""
    smt_mini_pc(root)
    files = {
        "cpu.max": "250000 100000",
        "cpuset.cpus.effective": "0-11",
        "memory.max": 2 * GIB,
        "memory.high": "max",
        "memory.current": 900 * MIB,
        "memory.swap.max": 2 * GIB,
        "memory.stat": f"anon {150 * MIB}\nfile {720 * MIB}\ninactive_anon 0\ninactive_file {700 * MIB}\n"
        f"active_file {20 * MIB}",
    }
    add_cgroup2(root, {"": files}, own="/")
    return root


def docker_v1(root: Path) -> Path:
    """The same limits by an older Docker: version 1 and no cgroup namespace."""
    smt_mini_pc(root)
    own = "/docker/3c1fd6b2"
    groups: dict[str, dict[str, object]] = {
        "cpu": {"cpu.cfs_quota_us": 250_000, "cpu.cfs_period_us": 100_000},
        "cpuset": {"cpuset.effective_cpus": "0-3"},
        "memory": {
            "memory.limit_in_bytes": 2 * GIB,
            "memory.usage_in_bytes": 900 * MIB,
            "memory.stat": f"cache {720 * MIB}\ninactive_file {700 * MIB}\ntotal_inactive_file {700 * MIB}",
        },
    }
    add_cgroup1(root, groups, own=own, mount_root=own)
    return root


def systemd_service(root: Path) -> Path:
    """A service with MemoryHigh=3G in a slice with MemoryMax=2500M that other services share."""
    smt_mini_pc(root)
    own = "home.slice/homespec.service"
    service = {
        "memory.max": "max",
        "memory.high": 3 * GIB,
        "memory.current": 200 * MIB,
        "memory.stat": f"inactive_file {150 * MIB}",
    }
    above = {
        "memory.max": 2500 * MIB,
        "memory.high": "max",
        "memory.current": 1000 * MIB,
        "memory.stat": f"inactive_file {400 * MIB}",
    }
    add_cgroup2(root, {own: service, "home.slice": above}, own=f"/{own}")
    return root


def lxc(root: Path) -> Path:
    """A Proxmox container with 4 GB and four CPUs: the limit shows only in lxcfs's /proc/meminfo."""
    for cpu in range(16):
        add_cpu(root, cpu, siblings=f"{cpu % 8},{cpu % 8 + 8}", max_khz=4_500_000)
    add_memory(root, total=4096 * MIB, available=3480 * MIB, free=2900 * MIB, swap_total=512 * MIB)
    files = {"cpuset.cpus.effective": "2-3,10-11", "cpu.max": "max 100000"}
    add_cgroup2(root, {"": files}, own="/.lxc")
    return root


ALL_MACHINES: Mapping[str, Callable[[Path], Path]] = {
    builder.__name__: builder
    for builder in (
        pi4,
        pi5,
        pi5_2gb_zram,
        rk3588,
        intel_hybrid,
        smt_mini_pc,
        docker,
        docker_v1,
        systemd_service,
        lxc,
    )
}
