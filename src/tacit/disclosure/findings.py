"""What an attack on a release found, in a sentence and in figures; never with a person's value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..core import Control, Evidence, check
from ..core.finding import NONE, NOTABLE, SEVERE, Finding
from .differencing import Asked, checked_log, differencing, solved
from .uniqueness import combinations, homogeneity, uniqueness

SHOWN = 5
MANY, SOME = 0.05, 0.001
"""Shares of rows that are alone from which on a combination is severe, or notable."""


def of_log(log: Sequence[Asked]) -> list[Finding]:
    """What the exact answers of a query log disclose together."""
    log = checked_log(log)
    people = len({person for query in log for person in query.people})
    found, contradict = solved(log)
    smallest = min((len(query.people) for query in log), default=0)
    figures: dict[str, object] = {
        "queries": len(log),
        "people": people,
        "disclosed": len(found),
        "smallest_set": smallest,
    }
    figures["ways"] = [item.sentence for item in found[:SHOWN]]
    if not found:
        told = f"No combination of the {len(log)} answers is about one of {people} people alone."
        return [Finding("differencing", told, NONE, figures)]
    some = f"the {'value' if len(found) == 1 else 'values'} of {len(found)} of {people} people"
    if contradict:
        told = f"The {len(log)} answers contradict each other, so not all are exact: "
        told += f"their differences tell {some} with the errors that the answers have."
        sure = any(contradict.isdisjoint(place for place, _ in item.queries) for item in found)
        return [Finding("differencing", told, SEVERE if sure else NOTABLE, figures)]
    told = f"The {len(log)} answers, if they are exact, determine {some}, by differences of sums."
    return [Finding("differencing", told, SEVERE, figures)]


def of_repeats(data: Mapping[str, Sequence[Mapping[str, Sequence[object]]]]) -> list[Finding]:
    """In how many queries of a log in JSON, as `read_log` accepts it, a person is listed more than once, if in any."""
    queries = data["queries"]
    repeats = sum(len(set(item["people"])) < len(item["people"]) for item in queries)
    if not repeats:
        return []
    told = f"{repeats} of {len(queries)} queries {'list' if repeats > 1 else 'lists'} a person more than once, and "
    told += "each was counted once: where an answer counts them more often, the other findings are wrong."
    return [Finding("repeated people", told, NONE, {"queries": len(queries), "repeats": repeats})]


def of_table(
    table: Mapping[str, object],
    columns: Sequence[str],
    secret: str | None = None,
    *,
    k: int = 5,
    unit: str | None = None,
) -> list[Finding]:
    """Which combinations of columns single people out, and what groups of k still tell about the secret.

    All columns together come first, since an attacker may know all of them; then the worst of up to three.
    """
    found = []
    check.whole("k", k, least=2)
    ranked = combinations(table, columns, unit=unit)
    whole = uniqueness(table, columns, unit=unit)
    for item in dict.fromkeys([whole, *ranked[:SHOWN]]):
        severity = SEVERE if item.unique >= MANY else NOTABLE if item.unique >= SOME else NONE
        figures = {"columns": list(item.columns), "unique": item.unique, "k": item.smallest, "rows": item.rows}
        found.append(Finding("uniqueness", item.sentence, severity, figures))
    if secret is not None:
        told = homogeneity(table, columns, secret, k=k, unit=unit)
        severity = SEVERE if told.disclosed >= MANY else NOTABLE if told.disclosed >= SOME else NONE
        figures = {"k": told.k, "hidden": told.hidden, "disclosed": told.disclosed}
        found.append(Finding("homogeneity", told.sentence, severity, figures))
    return found


def evidence(findings: Sequence[Finding], *, release: str, known: Sequence[str] = ()) -> Evidence:
    """Findings as evidence, with controls: a planted person is found, and nobody where there is nobody to be found.

    known: the facts that the attacker was taken to know.
    """
    facts = ", ".join(known)
    attacker = f"the release, and of a person: {facts}" if facts else "the release"
    return Evidence(
        subject=release,
        findings=tuple(findings),
        controls=_controls(),
        not_covered=(
            "attackers who know more than is stated, and other attacks: only a proof bounds all of them",
            "severity is a rule of thumb",
        ),
        threat={"what is released": release, "what the attacker sees": attacker},
    )


def _controls() -> tuple[Control, ...]:
    everybody = frozenset(range(9))
    planted = len(differencing([Asked(everybody, 9.0), Asked(everybody - {4}, 8.0)]))
    innocent = len(differencing([Asked(everybody, 9.0)]))
    alone = uniqueness({"zip": [1, 1, 1, 1, 2]}).unique
    copies = uniqueness({"zip": [1, 1, 1, 1]}).unique
    return (
        Control("planted difference", "1 person", f"{planted} person", planted == 1),
        Control("lone answer", "0 people", f"{innocent} people", innocent == 0),
        Control("planted lone row", "20.0 %", f"{alone:.1%}".replace("%", " %"), alone == 0.2),
        Control("rows that are alike", "0.0 %", f"{copies:.1%}".replace("%", " %"), copies == 0.0),
    )
