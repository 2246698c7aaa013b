"""`python -m tests.integration.image_root`: builds the root file system of docker/Dockerfile without
an engine, and runs a container's life in it.

It follows the instructions of the file, in layers above what stands for the image of Python: a root
file system of Debian (`--base DIR`, else this machine's own without its people), with the Python of
`--python DIR` as /usr/local. Then the command of
the image runs as an engine would run it: as process 1 and the image's user, with an environment of
the image alone, on a read-only tree, with a host name and a network of its own. Needs root on Linux,
and what pip needs. Not a test of the suite: it installs packages, which takes many seconds.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.dockerfile import DOCKERFILE, Instruction, Stage, stages, with_bases

CONTEXT = DOCKERFILE.parents[1]
PATH = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"
HOST_NAME = "3f2a9c"
LAYERS = (
    "/dev/shm"  # layers of an overlay lie on no layer below them: on a file system of their own
)
HIDDEN = ("/tmp", "/work", "/srv")  # of this machine's root
TIMEOUT_S = 60


@dataclass
class Image:
    """A file system in layers below `folder`, and what the instructions say of its containers."""

    folder: Path
    base: Path
    python: Path
    layers: dict[str, Path] = field(default_factory=dict)  # by stage, in the order of the build

    def build(self, name: str) -> None:
        """A stage, with those that it builds on or copies from."""
        for stage in with_bases(name):
            if stage.name in self.layers:
                continue
            for instruction in stage.instructions:
                if source := instruction.options.get("from"):
                    self.build(source)
            (self.folder / stage.name / "layer").mkdir(parents=True)
            self.layers[stage.name] = self.folder / stage.name / "layer"
            for instruction in stage.instructions:
                begun_s = time.monotonic()
                self._follow(stage, instruction)
                if instruction.word == "RUN":
                    print(f"{stage.name}: {time.monotonic() - begun_s:.1f} s, {instruction.text}")

    def mounts(self, name: str) -> str:
        """Shell commands that show the file system of a stage at `root`, with a fresh /tmp."""
        chain = [self.layers[stage.name] for stage in with_bases(name)]
        lower = ":".join(map(str, [*reversed(chain[:-1]), self._ground(), self.base]))
        work = self.folder / name / "work"
        work.mkdir(exist_ok=True)
        root = self.root
        lines = [
            f"mount -t overlay overlay -o lowerdir={lower},upperdir={chain[-1]},workdir={work} {root}",
            *(f"[ ! -d {root}{path} ] || mount -t tmpfs tmpfs {root}{path}" for path in HIDDEN),
            f"mount --rbind /dev {root}/dev",
            f"mount -t tmpfs tmpfs {root}{LAYERS}",
            f"mount --bind {self.python} {root}/usr/local",
        ]
        return "\n".join(lines)

    def _ground(self) -> Path:
        """A layer that has the libraries of the Python, and no user with an id that an image may
        give to its own.
        """
        ground, work = self.folder / "ground", self.folder / "ground-work"
        if not ground.exists():
            (ground / "etc").mkdir(parents=True)
            work.mkdir()
            layers = f"lowerdir={self.base},upperdir={ground},workdir={work}"
            _isolated(
                "set -e",
                f"mount -t overlay overlay -o {layers} {self.root}",
                f"mount --bind {self.python} {self.root}/usr/local",
                f"chroot {self.root} ldconfig",
            )
            lines = (self.base / "etc" / "passwd").read_text().splitlines()
            system = [line for line in lines if not 1000 <= int(line.split(":")[2]) < 60_000]
            (ground / "etc" / "passwd").write_text("\n".join(system) + "\n")
        return ground

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def _follow(self, stage: Stage, instruction: Instruction) -> None:
        if instruction.word == "RUN":
            environment = {**environment_of(with_bases(stage.name)), **_of_package_registries()}
            _isolated(
                "set -e",
                self.mounts(stage.name),
                f"mount -t proc proc {self.root}/proc",
                chroot(self.root, environment, ["/bin/sh", "-c", instruction.text]),
            )
        elif instruction.word == "COPY":
            self._copy(stage, instruction)

    def _copy(self, stage: Stage, instruction: Instruction) -> None:
        *sources, target = instruction.words()
        source_stage = instruction.options.get("from")
        context = CONTEXT if source_stage is None else self.layers[source_stage]
        for source in sources:
            path = context / source.lstrip("/")
            place = self.layers[stage.name] / target.lstrip("/")
            if path.is_dir():
                ignored = shutil.ignore_patterns("__pycache__") if source_stage is None else None
                shutil.copytree(path, place, symlinks=True, ignore=ignored, dirs_exist_ok=True)
                continue
            if target.endswith("/"):
                place /= path.name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
            if mode := instruction.options.get("chmod"):
                place.chmod(int(mode, 8))


def environment_of(chain: Sequence[Stage]) -> dict[str, str]:
    """Return the variables that ENV sets; its $PATH is that of the base image."""
    found = {"PATH": PATH}
    for stage in chain:
        for text in stage.texts("ENV"):
            pairs = (pair.partition("=") for pair in shlex.split(text))
            found |= {name: value.replace("$PATH", found["PATH"]) for name, _, value in pairs}
    return found


def chroot(
    root: Path, environment: dict[str, str], command: Sequence[str], user: str = "0:0"
) -> str:
    """A shell command that runs another one in a root, with this environment alone."""
    pairs = [f"{name}={value}" for name, value in environment.items()]
    return shlex.join(
        ["chroot", f"--userspec={user}", "--groups=", str(root), "env", "-i", *pairs, *command]
    )


def _isolated(*lines: str) -> None:
    """Run a shell script whose mounts nobody else sees; its output only if it fails."""
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{lines[-1]}:\n{done.stdout}{done.stderr}")


def _of_package_registries() -> dict[str, str]:
    """How pip reaches one from here."""
    names = [name for name in os.environ if name.startswith("PIP_") or name.endswith("_proxy")]
    return {"HOME": "/root", **{name: os.environ[name] for name in names}}


@dataclass
class Container:
    """A running command of an image, process 1 of its namespaces."""

    image: Image
    process: subprocess.Popen[str]
    environment: dict[str, str]
    user: str

    @property
    def first_process(self) -> int:
        """As this machine numbers it."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())

    def run(self, *command: str, given: str = "") -> str:
        """Output of a command in it, as an engine's `exec` runs one."""
        inside = ["nsenter", f"--target={self.first_process}"]
        inside += ["--mount", "--uts", "--ipc", "--net", "--pid", "sh", "-c"]
        script = chroot(self.image.root, self.environment, command, self.user)
        done = subprocess.run(
            [*inside, script],
            input=given,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{shlex.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout


@contextmanager
def running(image: Image, name: str, **variables: str) -> Iterator[Container]:
    """The command of a stage in a container whose root is read-only but for /tmp and volumes."""
    chain = with_bases(name)
    said = {word: text for each in chain for word in ("USER", "CMD") for text in each.texts(word)}
    user = f"{said['USER']}:0"
    environment = {**environment_of(chain), "HOSTNAME": HOST_NAME, **variables}
    command = Instruction("CMD", {}, said["CMD"]).words()
    volumes = [
        path
        for each in chain
        for text in each.texts("VOLUME")
        for path in Instruction("VOLUME", {}, text).words()
    ]
    root = image.root
    lines = [
        "set -e",
        image.mounts(name),
        f"hostname {HOST_NAME}",
        f"echo '127.0.0.1 localhost {HOST_NAME}' > {image.folder}/hosts",
        f"mount --bind {image.folder}/hosts {root}/etc/hosts",
        "ip link set lo up",
        f"mount -t proc proc {root}/proc",
        f"mount -o remount,bind,ro {root}",
        # An engine gives a new volume the owner of the folder that it covers.
        *(
            f"owner=$(stat -c %u:%g {root}{path}) && mount -t tmpfs tmpfs {root}{path} "
            f'&& chown "$owner" {root}{path}'
            for path in volumes
        ),
        f"exec {chroot(root, environment, command, user)}",
    ]
    isolated = ["unshare", "--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child"]
    process = subprocess.Popen(
        [*isolated, "--propagation", "private", "sh", "-c", "\n".join(lines)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Container(image, process, environment, user)
    finally:
        process.kill()
        process.wait()


def check(image: Image, name: str) -> None:
    """A container's life: start, health, records, a read-only tree, a stop within seconds."""
    begun_s = time.monotonic()
    with running(image, name) as container:
        assert container.process.stdout is not None
        lines = [container.process.stdout.readline() for _ in range(3)]
        print(f"listening {time.monotonic() - begun_s:.2f} s after the start of the container")
        print("".join(lines), end="")
        assert "Kafka Server started" in "".join(lines)
        (health,) = (text for each in with_bases(name) for text in each.texts("HEALTHCHECK"))
        container.run(*Instruction("CMD", {}, health.partition("CMD ")[2]).words())
        for address in ("localhost:9092", f"{HOST_NAME}:19092"):
            topic = "orders-" + address.partition(":")[2]
            container.run("kbroker", "produce", topic, "--bootstrap", address, given="book\nlamp\n")
            read = container.run("kbroker", "consume", topic, "--bootstrap", address)
            assert read == "book\nlamp\n", read
        topics = container.run("kafka-topics.sh", "--list", "--bootstrap-server", "localhost:9092")
        assert topics == "orders-19092\norders-9092\n", topics
        user = container.run("id", "-u").strip()
        assert user != "0"
        tries = container.run("sh", "-c", "touch /etc/x /opt/kbroker/x /x 2>&1; true")
        assert tries.count("Read-only file system") == 3, tries
        assert container.run("sh", "-c", "ls /var/lib/kafka/data").count("orders-") == 2
        begun_s = time.monotonic()
        os.kill(container.first_process, signal.SIGTERM)
        code = container.process.wait(TIMEOUT_S)
        print(f"user {user}: healthy, served both listeners, wrote nothing outside its volumes")
        print(f"stopped with exit code {code} {time.monotonic() - begun_s:.2f} s after SIGTERM")
        assert code == 0


def main(arguments: Sequence[str]) -> None:
    """Build, check, and say what was seen."""
    parser = argparse.ArgumentParser(prog="python -m tests.integration.image_root")
    parser.add_argument("--python", type=Path, default=Path(sys.base_prefix), metavar="DIR")
    parser.add_argument("--base", type=Path, default=Path("/"), metavar="DIR")
    parser.add_argument("--stage", default=list(stages())[-1])
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(
        dir=LAYERS, prefix="kbroker-image-", ignore_cleanup_errors=True
    ) as folder:
        (Path(folder) / "root").mkdir()
        image = Image(Path(folder), options.base, options.python)
        image.build(options.stage)
        sizes = subprocess.run(
            ["du", "-sm", *map(str, image.layers.values())],
            capture_output=True,
            text=True,
            check=True,
        )
        for line, name in zip(sizes.stdout.splitlines(), image.layers, strict=True):
            print(f"layers of {name}: {line.split()[0]} MB")
        check(image, options.stage)


if __name__ == "__main__":
    main(sys.argv[1:])
