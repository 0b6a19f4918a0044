"""Which processes measure on this machine now, as they say in a store that they share: each disturbs the others."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from workbench.errors import StoreError
from workbench.runs import owner
from workbench.runs.database import Database
from workbench.runs.row import Row
from workbench.runs.run import now


@dataclass(frozen=True)
class Measuring:
    """A process that measures, and when it began: ISO 8601."""

    owner: str
    since: str

    def __str__(self) -> str:
        return f"{owner.process_words(self.owner)}, since {self.since}"


class MeasuringStore:
    """The processes that measure, in a database of runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self) -> None:
        """Commit that this process measures from now on; what was left of processes that are gone is taken out."""
        here, moment = owner.this_process(), now()
        with self._database.transaction():
            self._database.connection.execute("INSERT OR REPLACE INTO measuring VALUES (?, ?)", (here, moment))
            self._database.connection.executemany(
                "DELETE FROM measuring WHERE owner = ?",
                [(one.owner,) for one in self._all() if owner.is_gone(one.owner, "", one.since)],
            )

    def end(self) -> None:
        """Commit that this process measures no longer."""
        with self._database.transaction():
            self._database.connection.execute("DELETE FROM measuring WHERE owner = ?", (owner.this_process(),))

    def others(self) -> frozenset[Measuring]:
        """The other processes that can be seen to measure on this machine."""
        here = owner.this_process()
        return frozenset(one for one in self._all() if one.owner != here and owner.is_here(one.owner))

    def _all(self) -> list[Measuring]:
        with self._database.explained("read"):
            found = self._database.connection.execute("SELECT owner, since FROM measuring").fetchall()
        return [Measuring(record["owner"], record["since"]) for record in found]


class Beside:
    """The others that measure beside a measurement of this process, as each point shows them."""

    def __init__(self, store: MeasuringStore) -> None:
        self._store = store
        self.others = self._look()

    def labelled(self, row: Row) -> Row:
        """A row just measured, with a flag that names the others seen at the end of the point before it and now."""
        seen, self.others = self.others | (now_seen := self._look()), now_seen
        flag = " and ".join(sorted({owner.process_words(one.owner) for one in seen}))
        return replace(row, flags="; ".join(filter(None, (row.flags, flag and f"measured while {flag} measured too"))))

    def _look(self) -> frozenset[Measuring]:
        # What a store that can't be read says of others is less than what is measured.
        with suppress(StoreError):
            return self._store.others()
        return frozenset()


@contextmanager
def measuring_begun(store: MeasuringStore) -> Iterator[Beside]:
    """Let others know that this process measures meanwhile, as far as the store takes it; yields the others."""
    with suppress(StoreError):
        store.begin()
    try:
        yield Beside(store)
    finally:
        with suppress(StoreError):
            store.end()


def others_words(others: Iterable[Measuring]) -> str:
    """Others that measure, for a person; empty where there are none."""
    named = " and ".join(sorted(map(str, others)))
    return named and (
        f"Another workbench measures on this machine: {named}. Each makes the other slower; what is measured meanwhile "
        "says so."
    )
