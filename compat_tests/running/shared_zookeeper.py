"""One ZooKeeper server for all in this process who neither stop it nor look at its whole tree, each
under a chroot of his own: most of what a server takes is the start of Java. It ends with this
process, also where that is killed.
"""

from __future__ import annotations

import atexit
import subprocess
from contextlib import ExitStack
from functools import cache
from itertools import count

from compat_tests.running.zookeeper_servers import ZooKeeperServers, zookeeper_servers

# Nobody but this process holds the other end of its input.
_WHEN_THIS_PROCESS_ENDS = 'cat > /dev/null; kill -9 "$1"; rm -rf "$2"'
_uses = count(1)


@cache
def shared_zookeeper() -> ZooKeeperServers:
    """The server. Raises NotAvailableError where Java or pyspark is missing."""
    end = ExitStack()
    server = end.enter_context(zookeeper_servers()).server
    assert server.process is not None
    left = [str(server.process.pid), str(server.directory.parent)]
    watcher = subprocess.Popen(
        ["sh", "-c", _WHEN_THIS_PROCESS_ENDS, "sh", *left], stdin=subprocess.PIPE
    )
    end.callback(watcher.wait)
    end.callback(watcher.kill)
    atexit.register(end.close)
    return ZooKeeperServers([server])


def fresh_chroot() -> str:
    """Address and chroot of an empty tree, as brokers take them, which make the chroot themselves."""
    return shared_zookeeper().connect(f"/use-{next(_uses)}")
