"""What goes wrong in a simulated cluster. Each method begins one fault, and sees to its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.fakes.running.virtual_loop import OwnerState, VirtualLoop, nobody
from tests.fakes.trees.simulated_tree import Ensemble
from tests.faults.cluster_model import ClusterModel
from tests.faults.cluster_network import ClusterNetwork
from tests.faults.cluster_process import LOG_DIRS, BrokerProcess


@dataclass(slots=True)
class FaultCounts:
    kills: int = 0
    stops: int = 0
    pauses: int = 0
    suspensions: int = 0
    expiries: int = 0
    outages: int = 0
    cut_links: int = 0
    held_links: int = 0
    failed_disks: int = 0

    def total(self) -> int:
        return sum(getattr(self, name) for name in self.__slots__)


@dataclass(slots=True)
class ClusterFaults:
    """`start_later(broker_id, seconds)` starts a broker whose process has ended."""

    random: Random
    loop: VirtualLoop
    ensemble: Ensemble
    network: ClusterNetwork
    model: ClusterModel
    start_later: Callable[[int, float], None]
    favours: Callable[[BrokerProcess], bool] = lambda process: process.controller.is_active
    counts: FaultCounts = field(default_factory=FaultCounts)

    @property
    def _session_timeout_s(self) -> float:
        return self.ensemble.weather.session_timeout_s

    def _processes(self) -> list[BrokerProcess]:
        return [p for p in self.network.processes.values() if p.is_alive]

    def running(self) -> list[BrokerProcess]:
        """Processes that neither are paused nor have ended."""
        return [p for p in self._processes() if p.owner.state is OwnerState.RUNNING]

    def _any(self) -> BrokerProcess | None:
        """A process, more often one that it favours."""
        running = self.running()
        if not running:
            return None
        favoured = [p for p in running if p.is_listening and self.favours(p)]
        if favoured and self.random.random() < 0.4:
            return favoured[0]
        return self.random.choice(running)

    def _duration_s(self) -> float:
        """Often shorter, sometimes longer than a session's time-out."""
        return self._session_timeout_s * self.random.choice((0.1, 0.5, 0.9, 1.1, 1.5, 3.0))

    def kill(self) -> None:
        """kill -9; the ensemble notices some time later."""
        process = self._any()
        if process is not None:
            self.kill_one(process)

    def kill_one(self, process: BrokerProcess) -> None:
        """As `kill`, of this process."""
        self.counts.kills += 1
        self.model.say(f"{process}: killed")
        self.end(process)
        self.start_later(process.broker_id, self._duration_s() * self.random.random())

    def end(self, process: BrokerProcess) -> None:
        """The process is no more."""
        self.loop.kill(process.owner)
        process.has_ended = True
        process.disk.let_go()
        if self.network.processes.get(process.broker_id) is process:
            del self.network.processes[process.broker_id]
        self.network.killed(process)
        process.tree.die()
        delay_s = self._session_timeout_s * self.random.choice((0.1, 0.7, 1.0))
        self.loop.call_later(delay_s, process.tree.forget, context=nobody())

    def pause(self) -> None:
        """SIGSTOP, and SIGCONT later."""
        process = self._any()
        if process is not None:
            self.pause_one(process)

    def pause_one(self, process: BrokerProcess) -> None:
        """As `pause`, of this process."""
        self.counts.pauses += 1
        duration_s = self._duration_s()
        self.model.say(f"{process}: stopped for {duration_s:.1f} s")
        self.loop.pause(process.owner)
        self._later(self._session_timeout_s, lambda: self._expire_paused(process))
        self._later(duration_s, lambda: self.resume(process))

    def _expire_paused(self, process: BrokerProcess) -> None:
        if process.owner.state is OwnerState.PAUSED:
            process.tree.expire()

    def resume(self, process: BrokerProcess) -> None:
        """The process goes on where it was."""
        if process.owner.state is OwnerState.PAUSED:
            self.model.say(f"{process}: goes on")
            self.loop.resume(process.owner)
            self._later(self.random.random() * 0.2, process.tree.restore)

    def suspend(self) -> None:
        """A broker cannot reach the ensemble for a while."""
        process = self._any()
        if process is None:
            return
        self.counts.suspensions += 1
        duration_s = self._duration_s()
        self.model.say(f"{process}: without the tree for {duration_s:.1f} s")
        process.tree.cut()
        self._later(duration_s, process.tree.restore)

    def expire(self) -> None:
        """The ensemble ends a session by itself."""
        process = self._any()
        if process is not None:
            self.expire_one(process)

    def expire_one(self, process: BrokerProcess) -> None:
        """As `expire`, of this process."""
        self.counts.expiries += 1
        self.model.say(f"{process}: session expires")
        process.tree.expire()
        self._later(self.random.random() * 1.0, process.tree.restore)

    def outage(self) -> None:
        """The whole ensemble is away, for less than a session's time-out, or a bit more."""
        if self.ensemble.is_down:
            return
        self.counts.outages += 1
        duration_s = self._session_timeout_s * self.random.choice((0.2, 0.7, 1.2))
        self.model.say(f"no tree for {duration_s:.1f} s")
        self.ensemble.is_down = True
        for process in self._processes():
            process.tree.cut()
        self._later(duration_s, self.end_outage)

    def end_outage(self) -> None:
        """The ensemble is back, and its clients find it one after the other."""
        if not self.ensemble.is_down:
            return
        self.model.say("the tree is back")
        self.ensemble.is_down = False
        for process in self._processes():
            self._later(self.random.random() * 0.5, process.tree.restore)

    def cut_link(self) -> None:
        """A controller cannot reach a broker for a while."""
        link = self._link()
        if link is not None:
            self.counts.cut_links += 1
            self.model.say(f"link {link} is cut")
            self.network.cut_links.add(link)
            self._later(self._duration_s(), lambda: self.network.cut_links.discard(link))

    def hold_link(self) -> None:
        """Hold up what a controller sends to a broker, so that it arrives in one go."""
        link = self._link()
        if link is not None:
            self.counts.held_links += 1
            until = self.loop.time() + self._duration_s()
            self.model.say(f"link {link} is held until {until:.1f}")
            self.network.held_until[link] = until

    def fail_disk(self) -> None:
        """One data directory of a broker refuses every change, until the broker is restarted."""
        process = self._any()
        if process is not None and not process.disk.failed:
            self.counts.failed_disks += 1
            directory = self.random.choice(LOG_DIRS)
            self.model.say(f"{process}: disk {directory} fails")
            process.disk.failed.add(directory)

    def _link(self) -> tuple[int, int] | None:
        processes = self._processes()
        if len(processes) < 2:
            return None
        active = [p for p in processes if p.is_listening and p.controller.is_active]
        sender = active[0] if active else self.random.choice(processes)
        target = self.random.choice([p for p in processes if p is not sender])
        return sender.broker_id, target.broker_id

    def _later(self, seconds: float, action: Callable[[], object]) -> None:
        self.loop.call_later(seconds, action, context=nobody())
