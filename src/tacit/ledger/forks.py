"""A process forks between its transactions with a SQLite file, never within one.

SQLite keeps in memory which locks its process holds on a file. A child that was forked within a transaction of another
thread would believe that it holds them too. It could not charge, and would keep others waiting while it tried.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

from ..core.errors import NotFinished

LONGEST = 30.0
"""Seconds that a fork waits for transactions; a child that was forked in spite of one is refused every other."""


class Transactions:
    """Which threads of this process are within a transaction, and which ones wait to fork."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open, self._forking = set[int](), set[int]()
        self._torn = False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold off forks while the block lasts; it begins after the forks that wait already.

        Raises NotFinished in a process that was forked within a transaction.
        """
        if self._torn:
            raise NotFinished(
                "This process was forked in the middle of a charge, and cannot use a ledger; nothing was charged.",
                fix='Start processes before threads that charge, or by multiprocessing\'s "spawn".',
            )
        own = threading.get_ident()
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._forking <= {own}, 2 * LONGEST)
                self._open.add(own)
            yield
        finally:
            self._open.discard(own)
            with self._changed:
                self._changed.notify_all()

    def begin_fork(self) -> None:
        """Let no transaction begin, and wait for those of other threads to end."""
        own = threading.get_ident()
        self._changed.acquire()
        self._forking.add(own)
        self._changed.wait_for(lambda: self._open <= {own}, LONGEST)

    def end_fork(self) -> None:
        """End the pause of other threads that a fork needed."""
        self._forking.discard(threading.get_ident())
        with contextlib.suppress(RuntimeError):  # Ctrl-C came before the lock
            self._changed.notify_all()
            self._changed.release()

    def begin_child(self) -> None:
        """Begin anew: other threads do not live on in a child."""
        self._changed, self._forking = threading.Condition(), set()
        self._torn = self._torn or bool(self._open)


transactions = Transactions()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=transactions.begin_fork,
        after_in_parent=transactions.end_fork,
        after_in_child=transactions.begin_child,
    )
