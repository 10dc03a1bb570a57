"""Kills an NBD server (`strobe serve --image`) repeatedly during writes, and checks for lost data.

Usage: nbd_torture.py STROBE [--seconds 30] [--kills 5] [--seed 1]

Each round writes, trims and flushes over several connections, drops some of them in the middle of a request, and ends with
kill -9. The next server must return the durable version of each unit, or a newer one that was sent. At the end `strobe
fsck` must find no damage. Needs only Python and the program.
"""

import argparse
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

UNIT = 4096
READ, WRITE, FLUSH, TRIM = 0, 1, 3, 4
FUA = 1
DRIVE = """[nand]
channels = 2
dies_per_channel = 2
blocks_per_plane = 24
pages_per_block = 64
[ftl]
logical_pages = 4608
"""
UNITS = 4608


class Client:
    """A connection with simple replies."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.cookie = 0
        assert self.take(18)[:16] == b"NBDMAGICIHAVEOPT"
        self.socket.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, 0))
        self.size = struct.unpack(">QH", self.take(10))[0]

    def take(self, count):
        parts = bytearray()
        while len(parts) < count:
            part = self.socket.recv(count - len(parts))
            if not part:
                raise ConnectionError("the server has closed the connection")
            parts += part
        return bytes(parts)

    def message(self, command, unit=0, count=0, data=b"", flags=0):
        self.cookie += 1
        return struct.pack(">IHHQQI", 0x25609513, flags, command, self.cookie, unit * UNIT, count * UNIT) + data

    def replied(self):
        magic, error, cookie = struct.unpack(">IIQ", self.take(16))
        assert magic == 0x67446698 and error == 0, (hex(magic), error)
        return cookie

    def drop(self):
        """Ends the connection; returns after the server has closed it."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
            while self.socket.recv(1 << 16):
                pass
        except OSError:
            pass
        self.socket.close()


def content(unit, version):
    return struct.pack("<QQ", unit, version) * (UNIT // 16) if version else bytes(UNIT)


class Torture:
    def __init__(self, strobe, folder, seed):
        self.strobe, self.folder, self.random = strobe, folder, random.Random(seed)
        self.socket = os.path.join(folder, "s.sock")
        #: Legal versions of each unit after a kill: the durable one, then later requests in order.
        self.possible = [[0] for _ in range(UNITS)]
        self.version = self.kills = self.requests = self.drops = self.flushes = 0
        with open(os.path.join(folder, "ssd.toml"), "w") as file:
            file.write(DRIVE)

    def start(self):
        options = ["--drive", "ssd.toml", "--image", "ssd.img", "--pace", "none", "--socket", "s.sock"]
        server = subprocess.Popen([self.strobe, "serve", *options], cwd=self.folder, stdout=subprocess.PIPE, text=True)
        assert server.stdout.readline().startswith("nbd+unix:"), "no server"
        return server

    def verify(self):
        """Reads the whole drive. Every version found has survived a kill, and is durable from then on."""
        client = Client(self.socket)
        for first in range(0, UNITS, 256):
            client.socket.sendall(client.message(READ, first, 256))
            client.replied()
            data = client.take(256 * UNIT)
            for at in range(256):
                unit, found = first + at, data[at * UNIT : (at + 1) * UNIT]
                fits = [version for version in self.possible[unit] if content(unit, version) == found]
                assert fits, f"unit {unit}: {found[:16].hex()} is none of the versions {self.possible[unit]}"
                self.possible[unit] = fits[:1]
        client.drop()

    def step(self, clients):
        """Sends a batch of concurrent requests, sometimes followed by a flush."""
        batch, units = [[] for _ in clients], self.random.sample(range(UNITS), 24)
        for unit in units:
            at = self.random.randrange(len(clients))
            trims, fua = self.random.random() < 0.15, FUA if self.random.random() < 0.1 else 0
            self.version += 0 if trims else 1
            version = 0 if trims else self.version
            data = b"" if trims else content(unit, version)
            batch[at].append((unit, version, fua, clients[at].message(TRIM if trims else WRITE, unit, 1, data, fua)))
            self.possible[unit].append(version)
        victim = self.random.randrange(len(clients)) if self.random.random() < 0.05 else None
        for at, client in enumerate(clients):
            message = b"".join(part[3] for part in batch[at])
            if at == victim:
                message = message[: self.random.randrange(len(message) + 1)]
            client.socket.sendall(message)
        self.requests += len(units)
        for at, client in enumerate(clients):
            if at == victim:
                client.drop()
                self.open.update(part[0] for part in batch[at])
                clients[at] = Client(self.socket)
                self.drops += 1
                continue
            for unit, version, fua, _ in batch[at]:
                client.replied()
                if fua and unit not in self.open:
                    self.possible[unit] = [version]
        if self.random.random() < 0.2:
            client = self.random.choice(clients)
            client.socket.sendall(client.message(FLUSH))
            client.replied()
            self.flushes += 1
            # The outcome of requests on a dropped connection is unknown until `verify` reads the whole drive.
            self.possible = [
                versions if unit in self.open else versions[-1:] for unit, versions in enumerate(self.possible)
            ]

    def round(self, server, seconds):
        """Sends requests for `seconds`, kills the server, starts the next one and verifies it."""
        self.open = set()
        clients = [Client(self.socket) for _ in range(4)]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.step(clients)
        # The server is killed with these requests in flight.
        client = clients[0]
        for unit in self.random.sample(range(UNITS), 64):
            self.version += 1
            self.possible[unit].append(self.version)
            client.socket.sendall(client.message(WRITE, unit, 1, content(unit, self.version)))
        server.send_signal(signal.SIGKILL)
        server.wait()
        self.kills += 1
        server = self.start()
        self.verify()
        return server

    def run(self, seconds, kills):
        server = self.start()
        try:
            end = time.monotonic() + seconds
            while self.kills < kills or time.monotonic() < end:
                server = self.round(server, self.random.uniform(0.05, max(0.1, 2 * seconds / kills)))
        finally:
            server.kill()
            server.wait()
        done = subprocess.run([self.strobe, "fsck", "ssd.img"], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert self.flushes and self.drops or kills < 3, "too short to flush and to drop a connection"
        print(
            f"{self.kills} kills, {self.drops} dropped connections, {self.requests} requests, {self.flushes} flushes: "
            "nothing was lost"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("strobe")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Torture(os.path.abspath(given.strobe), folder, given.seed).run(given.seconds, given.kills)
    return 0


if __name__ == "__main__":
    sys.exit(main())
