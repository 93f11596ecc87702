"""Which differences are listed as deviations, and which listed deviations are no longer true."""

from collections import Counter
from collections.abc import Sequence

from cometmq.protocol.deviations import Deviation
from compat.differential.requests import code_name
from compat.differential.runner import Difference


class Verdict:
    """Differences of one server against the table of deviations."""

    def __init__(self, listed: Sequence[Deviation], found: Sequence[Difference]) -> None:
        self.unlisted: list[Difference] = []
        self.by_reason: Counter[str] = Counter()
        self._used: set[tuple[int, int | None]] = set()
        for each in found:
            rows = [number for number, row in enumerate(listed) if _covers(row, each)]
            if not rows:
                self.unlisted.append(each)
                continue
            self.by_reason[listed[rows[0]].reason.value] += 1
            for number in rows:
                self._used |= {(number, None), (number, each.case.code)}
        self._listed = listed

    @property
    def stale(self) -> list[str]:
        """Rows, or codes of rows, for which both servers do the same."""
        return [
            f"{row.when}: {'any code' if code is None else code_name(code)}"
            for number, row in enumerate(self._listed)
            for code in row.codes or (None,)
            if (number, code) not in self._used
        ]

    def report(self, compared: int) -> str:
        """The figures, by reason."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.by_reason.items())
        listed = sum(self.by_reason.values())
        return (
            f"{compared} requests compared, {listed} differ as listed ({reasons}), "
            f"{len(self.unlisted)} differ and are not listed"
        )


def is_listed(listed: Sequence[Deviation], found: Difference) -> bool:
    """Does a row of the table describe this difference?"""
    return any(_covers(row, found) for row in listed)


def _covers(row: Deviation, found: Difference) -> bool:
    ours = found.answers[1]
    case = f"{found.case.field}: {found.case.how}"
    return row.covers(found.case.code, case, ours.code if ours.kind == "answer" else None)
