"""Membership inference, measured: anybody's model, honest splits, white-box attacks, defences, and LiRA on CIFAR-10.

    python benchmarks/membership.py white-box [--scale small|large] [--device cuda] [--work FOLDER] [--part I/4]
    python benchmarks/membership.py defences [--data location30|baskets600]
    python benchmarks/membership.py lira --scale large --device cuda --work FOLDER     (may be stopped and run again)
    python benchmarks/membership.py matrix [--quick] [--data adult] [--kind tree] [--work FILE] [--part I/4]
                                           [--seconds 150] [--workers 8]       (may be stopped and run again)
    python benchmarks/membership.py honesty [--quick] [--campaign NAME] [--kind tree] [--work FILE] [--part I/4]
                                            [--seconds 150] [--workers 8]      (may be stopped and run again)
    python benchmarks/membership.py service [--quick] [--work FILE]     (a model behind a local HTTP server)
    python benchmarks/membership.py scale [--quick]       (100,000 members, 1,000 classes)
    python benchmarks/membership.py           (all but LiRA, at small scale)

Results go to benchmarks/results. CIFAR needs Pillow, and the data folder in TACIT_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import torch

from machine import RESULTS, describe, keep
from pieces import Pieces


def white_box(options: argparse.Namespace) -> None:
    import membership_white_box

    with tempfile.TemporaryDirectory() as folder:  # without --work nothing is taken from an earlier run
        work = Path(options.work or folder)
        rows = membership_white_box.run(options.scale, options.device, options.seed, work, options.part)
    if rows:
        print("ordered as published" if membership_white_box.ordered(rows) else "NOT ordered as published")
        seed = f"-seed{options.seed}" if options.seed else ""
        _kept(f"membership-white-box-{options.scale}{seed}", options, rows)


def defences(options: argparse.Namespace) -> None:
    import membership_defences

    for name in membership_defences.TASKS[options.scale]:
        if options.data in (None, name):
            rows = membership_defences.run(options.scale, name, options.seed)
            _kept(f"membership-defences-{name}", options, rows)


def lira(options: argparse.Namespace) -> None:
    import membership_lira

    work = Path(options.work or "lira-models")
    rows = membership_lira.run(options.scale, options.device, options.seed, work, options.part)
    if rows:
        _kept(f"membership-lira-{options.scale}", options, rows)


def matrix(options: argparse.Namespace) -> None:
    import membership_matrix
    import membership_verdicts

    folder, only = Path(os.environ["TACIT_DATA"]), (options.data, options.kind)
    found = membership_matrix.run(folder, options.quick, seed=options.seed, pieces=_pieces(options), only=only)
    print({name: value for name, value in found.items() if name != "matrix"})
    print(membership_verdicts.matrix(found))
    if found["missing"]:
        print("not finished: the same command goes on")
    elif found["absent"]:
        print("not kept: a matrix without these kinds of model would replace a whole one")
    elif not options.quick and not options.seed:
        _kept("membership-matrix", options, found)


def honesty(options: argparse.Namespace) -> None:
    import membership_honesty
    import membership_verdicts

    pieces = _pieces(options)
    found = membership_honesty.run(pieces, options.quick, options.campaign, options.kind)
    print(*membership_verdicts.verdicts(found), sep="\n")
    if pieces.unfinished:
        print("not finished: the same command goes on")
    elif not options.quick:
        earlier = _earlier("membership-honesty")
        if options.kind is not None and "planted" in found:
            found["planted"] = replaced(earlier.get("planted", []), found["planted"])
        _kept("membership-honesty", options, {**earlier, **found})


def replaced(rows: list[dict[str, Any]], fresh: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The kept rows of all kinds of model, with those that were measured again in place of the old ones."""
    by_kind = {row["kind"]: row for row in (*rows, *fresh)}
    return list(by_kind.values())


def scale(options: argparse.Namespace) -> None:
    import membership_scale

    found = membership_scale.run(2000, 1000, 50, 2) if options.quick else membership_scale.run()
    print(found)
    if not options.quick:
        _kept("membership-scale", options, found)


def service(options: argparse.Namespace) -> None:
    import membership_service

    work = None if options.work is None else Path(options.work)
    found = membership_service.run(1, 100, 2) if options.quick else membership_service.run(work=work)
    if not options.quick:
        _kept("membership-service", options, found)


def _pieces(options: argparse.Namespace) -> Pieces:
    work = None if options.work is None else Path(options.work)
    return Pieces(work, options.share, options.seconds, options.workers)


def _earlier(name: str) -> dict[str, Any]:
    """The campaigns that were kept before: one that is made again replaces its own alone."""
    path = RESULTS / f"{name}.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))["rows"]) if path.is_file() else {}


def _kept(name: str, options: argparse.Namespace, rows: object) -> None:
    if options.scale == "tiny":
        return
    machine = describe("torch")
    if options.device.startswith("cuda"):
        machine["gpu"] = torch.cuda.get_device_name()
    print(f"kept in {keep(name, {**machine, 'seed': options.seed}, rows).name}")


VERBS = {
    "matrix": matrix,
    "honesty": honesty,
    "scale": scale,
    "service": service,
    "white-box": white_box,
    "defences": defences,
    "lira": lira,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", nargs="?", choices=VERBS)
    parser.add_argument("--scale", default="small", choices=("tiny", "small", "large"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data", help="of defences and matrix, one data set only, such as location30")
    parser.add_argument("--work", help="where finished models, or architectures, are kept to go on from")
    parser.add_argument("--part", default="0/1", metavar="I/N", help="do every N-th of them, from number I on")
    parser.add_argument("--quick", action="store_true", help="of matrix, honesty and scale: a sample, nothing is kept")
    parser.add_argument(
        "--campaign",
        default="all",
        choices=("all", "planted", "false discoveries", "nulls", "coverage", "confounded"),
    )
    parser.add_argument("--kind", help="of matrix and of planted records, one kind of model only, such as tree")
    parser.add_argument("--seconds", type=float, help="of matrix and honesty: begin nothing after so long")
    parser.add_argument("--workers", type=int, default=1, help="of matrix and honesty: processes")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = re.fullmatch(r"(\d+)/(\d+)", options.part)
    if found is None or int(found[1]) >= int(found[2]):
        parser.error("--part must be I/N with I below N, as in 0/4.")
    if options.work is None and (options.part != "0/1" or options.seconds is not None):
        parser.error("--part and --seconds need --work, where the parts meet.")
    options.share = int(found[1]), int(found[2])
    for name, verb in VERBS.items():
        if options.verb == name or (options.verb is None and name != "lira"):
            verb(options)


if __name__ == "__main__":
    main()
