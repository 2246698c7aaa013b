"""Measures of the process, under the names of all Prometheus clients, and of its event loop."""

from __future__ import annotations

import gc
import os
import resource
import time
from collections.abc import Callable, Iterator
from functools import partial

from kbroker.counters import CounterRegistry, Kind, Metric, MetricName, Row, Table
from kbroker.server.background.loop_idle import LoopIdle

_PROC = "/proc/self"
_ONE_PROCESSOR = ("networkProcessor", "0")


def register_process(counters: CounterRegistry, idle: LoopIdle) -> None:
    """Register the measures of this process under their names."""
    handlers = MetricName("kafka.server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent")
    counters.add(handlers, idle.share)
    network = MetricName("kafka.network", "SocketServer", "NetworkProcessorAvgIdlePercent")
    counters.add(network, idle.share)
    processor = MetricName("kafka.network", "Processor", "IdlePercent", (_ONE_PROCESSOR,))
    counters.add(processor, idle.share)
    counters.add(_name("cpu_seconds"), _cpu_seconds, Kind.COUNTER)
    started_s = time.time() - _age_seconds()
    counters.add(_name("start_time_seconds"), lambda: started_s)
    disk = MetricName("kafka.server", "KafkaServer", "")
    for way in ("read", "write"):
        moved = partial(_disk_bytes, way)
        if _can_be_read(moved):
            counters.add(disk._replace(name=f"linux-disk-{way}-bytes"), moved)
    for name, gauge in (
        ("open_fds", _open_descriptors),
        ("max_fds", lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        ("resident_memory_bytes", lambda: _pages(1)),
        ("virtual_memory_bytes", lambda: _pages(0)),
    ):
        if _can_be_read(gauge):
            counters.add(_name(name), gauge)
    collections = Metric(MetricName("python", "", "gc_collections"), Kind.COUNTER)
    counters.add_table(Table((collections,), ("generation",), _collections))


def _collections() -> Iterator[Row]:
    for generation, stats in enumerate(gc.get_stats()):
        yield (str(generation),), (stats["collections"],)


def _name(name: str) -> MetricName:
    return MetricName("process", "", name)


def _can_be_read(gauge: Callable[[], float]) -> bool:
    try:
        gauge()
    except OSError:  # not on Linux
        return False
    return True


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _open_descriptors() -> int:
    return len(os.listdir(f"{_PROC}/fd"))


def _disk_bytes(way: str) -> int:
    with open(f"{_PROC}/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(f"{way}_bytes"))


def _pages(field: int) -> int:
    with open(f"{_PROC}/statm", "rb") as file:
        return int(file.read().split()[field]) * os.sysconf("SC_PAGE_SIZE")


def _age_seconds() -> float:
    try:
        with open(f"{_PROC}/stat", "rb") as file:
            began_ticks = int(file.read().rpartition(b")")[2].split()[19])
    except OSError:
        return time.process_time()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began_ticks / os.sysconf("SC_CLK_TCK")
