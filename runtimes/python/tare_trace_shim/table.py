"""The table of runtimes/PROTOCOL.md, and in it the record of each thread that reads or writes sockets."""

import itertools
import mmap
import os
from _thread import _local, allocate_lock, get_native_id

SLOTS = 1024
HEADER = RECORD = 64  # bytes
PROBES = 4
MAGIC = b"\0tare-threads-v1\0" + bytes.fromhex("9e3779b97f4a7c15f39cc0605cedc8")
EVERY_READ = 1  # flag: every read that brings bytes takes the receipt

local = _local()  # .slot: this thread's Slot, or None if it has none


class Slot:
    """Where a thread's record is, in words of 8 bytes, and the token for what the thread receives next."""

    __slots__ = ("words", "current", "receipt")


class _Table:
    def __init__(self):
        size = HEADER + SLOTS * RECORD
        try:
            fd = os.memfd_create("tare-threads")
        except (AttributeError, OSError):
            # Refused (seccomp, for instance). The agent then finds the table by its magic and not by its name.
            self._map = mmap.mmap(-1, size)
        else:
            try:
                os.posix_fallocate(fd, 0, size)  # memory that cannot be had is an error here, and no SIGBUS later
                self._map = mmap.mmap(fd, size)
            finally:
                os.close(fd)
        self._bytes = memoryview(self._map)
        self._words = self._bytes.cast("Q")
        self._tids = self._bytes.cast("I")
        self._tids[len(MAGIC) // 4] = SLOTS
        self._bytes[: len(MAGIC)] = MAGIC

    def claim(self, tid):
        """Returns the index of a record for the thread in words, or None if its neighbourhood is full."""
        at = ((tid * 0x9E3779B1 & 0xFFFFFFFF) * SLOTS) >> 32
        for i in range(PROBES):
            word = (HEADER + (at + i) % SLOTS * RECORD) // 8
            owner = self._tids[word * 2]
            if owner == 0 or owner == tid or not _lives(owner, tid):
                return word
        return None

    def publish(self, word, tid, receipt):
        self._words[word + 1] = 0
        self._words[word + 3] = receipt
        self._tids[word * 2 + 1] = EVERY_READ
        self._tids[word * 2] = tid  # last: the kernel side reads a record only by its tid
        return self._words

    def unmap(self):
        for view in (self._tids, self._words, self._bytes):
            view.release()
        self._map.close()


def _lives(owner, tid):
    # Without /proc, or with that of another pid namespace, nothing can be said: then it lives.
    return os.path.exists(f"/proc/self/task/{owner}") or not os.path.exists(f"/proc/self/task/{tid}")


_table = None
_lock = allocate_lock()
_writers = itertools.count(1)  # the upper bits of a thread's tokens; never used again, also by a child of fork


def claim():
    """Gives the calling thread a record. Returns its Slot, or None: what the thread sends is not linked."""
    local.slot = None
    try:
        tid = get_native_id()
        with _lock:
            word = _table.claim(tid)
            if word is None:
                return None
            slot = Slot()
            slot.current, slot.receipt = word + 1, next(_writers) << 40 | 1
            slot.words = _table.publish(word, tid, slot.receipt)
        local.slot = slot
        return slot
    except Exception:
        return None


def start():
    global _table
    if _table is None:
        _table = _Table()
        os.register_at_fork(after_in_child=_after_fork)


def _after_fork():
    """A child has a table of its own: records are known by tid, and it would share its parent's."""
    global _table, _lock
    try:
        _lock = allocate_lock()  # may have been held
        old, _table = _table, None
        local.__dict__.clear()
        old.unmap()
        _table = _Table()
    except Exception:
        pass  # without a table no thread gets a record
