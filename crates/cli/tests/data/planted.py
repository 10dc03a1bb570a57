"""Seven programs that keep data, each with a durability bug (bad) and without it (good), and the check of each.

planted.py KIND good|bad runs one in the current folder, planted.py KIND check checks what is left.
"""

import os
import sys
import time

ROUNDS = 8


def put(path, data, sync=True, flags=os.O_CREAT | os.O_TRUNC):
    file = os.open(path, os.O_WRONLY | flags, 0o644)
    os.write(file, data)
    if sync:
        os.fsync(file)
    os.close(file)


def sync_folder(path="."):
    folder = os.open(path, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def say(n):
    print(n, flush=True)
    time.sleep(0.3)


def append(good):
    file = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    sync_folder()
    for n in range(1, ROUNDS + 1):
        os.write(file, b"line %d\n" % n)
        if good:
            os.fdatasync(file)
        say(n)
        os.fdatasync(file)


def replaced(file_synced, folder_synced):
    for n in range(1, ROUNDS + 1):
        put("config.new", b"setting %d\n" % n * 400, file_synced)
        os.rename("config.new", "config")
        if folder_synced:
            sync_folder()
        say(n)


def new_file(good):
    for n in range(1, ROUNDS + 1):
        put("entry-%d" % n, b"%d" % n)
        if good:
            sync_folder()
        say(n)


def wrong_descriptor(good):
    data = os.open("data", os.O_WRONLY | os.O_CREAT, 0o644)
    other = os.open("other", os.O_WRONLY | os.O_CREAT, 0o644)
    os.pwrite(data, b"0" * 65536, 0)
    sync_folder()
    os.sync()
    for n in range(1, ROUNDS + 1):
        os.pwrite(data, b"%d" % n * 4096, 8192 * (n - 1))
        os.fsync(data if good else other)
        say(n)


def in_place(good):
    put("table", b"0" * 65536)
    sync_folder()
    for n in range(1, ROUNDS + 1):
        if good:
            put("table.new", b"%d" % n * 65536)
            os.rename("table.new", "table")
            sync_folder()
        else:
            put("table", b"%d" % n * 65536, flags=0)
        say(n)


def log_first(good):
    put("log", b"")
    put("table", b"0" * 4096)
    sync_folder()
    table = os.open("table", os.O_WRONLY)
    for n in range(1, ROUNDS + 1):
        put("log", b"%d" % n * 4096, flags=os.O_TRUNC)
        os.pwrite(table, b"%d" % n * 4096, 0)
        if good:
            os.fsync(table)
        put("log", b"", flags=os.O_TRUNC)
        say(n)


RUN = {
    "append": append,
    "rename-file": lambda good: replaced(good, True),
    "rename-folder": lambda good: replaced(True, good),
    "new-file": new_file,
    "wrong-descriptor": wrong_descriptor,
    "in-place": in_place,
    "log-first": log_first,
}


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def lost(what):
    print(what)
    sys.exit(1)


def wrong(what):
    print(what)
    sys.exit(2)


def check(kind):
    with open(os.environ["STROBE_ACKNOWLEDGED"]) as lines:
        last = int((["0"] + lines.read().split())[-1])
    if kind == "append":
        for n in range(1, last + 1):
            if b"line %d\n" % n not in (read("log") or b""):
                lost("line %d is not there" % n)
    elif kind.startswith("rename"):
        config = read("config")
        if last and config is None:
            lost("there is no config")
        if config is not None and config[:8] != b"setting ":
            wrong("config has no setting")
        if config is not None and int(config.split()[1]) < last:
            lost("config is an old one")
    elif kind == "new-file":
        for n in range(1, last + 1):
            if read("entry-%d" % n) != b"%d" % n:
                lost("entry %d is not there" % n)
    elif kind == "wrong-descriptor":
        data = read("data") or b""
        for n in range(1, last + 1):
            if data[8192 * (n - 1) :][:4096] != b"%d" % n * 4096:
                lost("block %d is not there" % n)
    elif kind == "in-place":
        table = read("table")
        if last and table is None:
            lost("there is no table")
        if table and len(set(table)) != 1:
            wrong("the table is half old and half new")
    else:
        log, table = read("log"), read("table")
        if last and log != b"%d" % (last + 1) * 4096 and (table is None or int(table[:1] or b"0") < last):
            lost("the table is old and the log is empty")


if __name__ == "__main__":
    kind, how = sys.argv[1:]
    if how == "check":
        check(kind)
    else:
        RUN[kind](how == "good")
