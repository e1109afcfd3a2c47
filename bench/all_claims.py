"""Run every benchmark, also after one that fails, and show all claims in one table: claim, measured, holds or not.

    python bench/all_claims.py                                  all, as `make bench` does
    python bench/all_claims.py exp_is_within_four_ulps …        some of them, by their names
    python bench/all_claims.py --resume claims.json             all, also in pieces
    python bench/all_claims.py --quick                          all, smaller, and no script for long
    python bench/all_claims.py --columns one.json two.json      nothing: a table of what such files keep, as Markdown

With --resume the file keeps the machine and what each script said. A script whose claims were all met there is not run
again, unless it, the library or its options have changed since. Ctrl-C shows the table of what was run so far.

--jobs runs several scripts at a time, for machines with more processors than they need; one whose claims were not all
met beside others is run again by itself. --device is passed on to scripts that have such an option.

--quick runs the scripts that `QUICK` names with options that make them smaller, and the table shows these options
beside the name. --minutes stops each script after so long: its claims are then *not run*, never met (with --quick, 2
minutes unless stated otherwise). The first row of a table that was made so says that it was. A limit is for the size of
the script itself: at a smaller one, where fixed costs weigh more, a claim may be missed that holds.

Exit 1 if a claim is not met, or if a script ends with an error; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from threading import Event, Lock
from typing import NamedTuple, get_args

from rich.console import Console
from rich.table import Table

from monolayer.data.aside import new_file
from monolayer.table import escape
from monolayer_experiments.results import versions
from workload import CLAIMS, Claim, Verdict, title_of

HERE = Path(__file__).parent
RUNS = re.compile(r"^(if __name__|run\(main\))", re.MULTILINE)
"""A line of a file that runs something; other files of this folder hold what scripts share."""
DEVICE = '"--device"'
"""What the source of a script holds that can be run on a device."""
ALONE = "{} at a time, and by itself where a claim was not met beside others"
LIMITED = re.compile(r"(.*) \(claim: (.*?)\)(.*)")
"""What was measured, the limit, and what is said of the machine (`workload.claim`)."""
USAGE = 2
"""What a script exits with that needs arguments: what it claims is of something that only its caller has."""
ROWS = 8
"""So many claims of one script that hold are a row each where tables are put side by side."""
WIDTH = 140
"""Columns of the table where no terminal says how many it has."""
GRACE = 10.0
"""Seconds in which a script ends after Ctrl-C, which a terminal tells it too. After that it is told by us."""


QUICK = {
    "a_bert_of_8000_keys_takes_15_mb": "--quick",
    "a_lookup_model_takes_six_times_its_json_at_most": "--largest-bert 1000",
    "a_robust_build_is_linear_in_the_facts_of_a_token": "--most 2000",
    "a_robust_edit_costs_less_than_a_construction": "--phrases 40000 --edits 5 --many 100",
    "a_robust_stock_edit_costs_less_than_a_construction": "--phrases 4000 --edits 2 --many 20",
    "a_thousand_facts_attached": "--facts 20 --seconds 20 --places 2000",
    "approximation_builds_in_twelve_sorts": "--points 200000 --repeats 3",
    "attaching_takes_three_passes_per_fact": "--dtype float32",
    "attribution_scored_against_leave_one_out": "--facts 8 --seeds 1",
    "construction_beats_training": "--sequences 300 --seconds 20",
    "files_of_every_kind_within_their_memory": "--labels 4e5 --rows 6250",
    "float32_holds_100000_points_proved": "--points 20000",
    "no_false_claim_about_an_embedding": "--count 20",
    "no_false_proof_in_100000_faults": "--count 300",
    "no_false_proof_of_a_stock_folder": "--folders ours --seconds 20",
    "no_false_proof_of_attached_folders": "--count 20",
    "no_false_proof_of_changed_robust_weights": "--count 1",
    "no_hardmax_layer_survives": "--count 2000 --floats 20",
    "no_model_lost_in_5000_kills": "--kills 30",
    "norms_keep_lengths": "--states 2000",
    "rank_two_holds_64_million_points": "--points 8000000",
    "reading_costs_twice_pyarrow_at_most": "--sequences 50000",
    "robust_models_survive_short_formats": "--brief",
    "stock_text_recites_itself": "--characters 5000 --recite 200",
    "ten_thousand_questions_in_one_folder": "--count 500",
}
"""Options that make a script smaller, by its name. Other scripts are run as they are."""
QUICK_MINUTES = 2.0
"""After how many minutes --quick stops a script."""


_running: set[subprocess.Popen[bytes]] = set()
_stopped = Event()
"""Whether Ctrl-C was pressed: what a script says that it ended is not kept."""


class Ended(NamedTuple):
    """What a script claims and measured, how long it took, which source that was, and with which options."""

    claims: list[Claim]
    seconds: float
    source: str
    words: str = ""

    @property
    def met(self) -> bool:
        return all(claim.verdict in ("holds", "within the margin") for claim in self.claims)


@dataclass
class Kept:
    """What a file of --resume keeps: the machine, how scripts were run on it, and what each of them said."""

    machine: str
    how: str
    scripts: dict[str, Ended]

    @classmethod
    def read(cls, path: Path | None, how: str) -> Kept:
        """What the file holds; nothing yet, of this machine, where there is none."""
        if path is None or not path.exists():
            return cls(here(), how, {})
        kept = json.loads(path.read_text(encoding="utf-8"))
        rows = kept["scripts"].items()
        scripts = {name: Ended([Claim(*claim) for claim in claims], *rest) for name, (claims, *rest) in rows}
        return cls(kept["machine"], kept["how"], scripts)

    def write(self, path: Path) -> None:
        with new_file(path) as file:
            json.dump(asdict(self), file, indent=1, ensure_ascii=False)
            file.write("\n")


def here() -> str:
    """This machine in words: the kind and number of its processors, and its GPU."""
    import torch

    count = os.cpu_count() or 1
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{platform.machine()}, {count} processor{'s' if count > 1 else ''}{gpu}"


def benchmarks() -> list[Path]:
    """The scripts of this folder but for this one: files that run something, not only define what others import."""
    found = [path for path in sorted(HERE.glob("*.py")) if path.name != Path(__file__).name]
    return [path for path in found if RUNS.search(path.read_text(encoding="utf-8"))]


def source_of(script: Path, library: str, words: str = "") -> str:
    """A digest of what a script measured: the library, by its own digest, the script itself and its options."""
    return sha256(library.encode() + script.read_bytes() + words.encode()).hexdigest()[:16]


def claims_of(script: Path, words: str = "", seconds: float | None = None) -> list[Claim]:
    """Run a script; its claims, or one row for a script that says none or breaks off.

    `words`: its options. `seconds`: when to stop it; then nothing that it claims counts as run.
    """
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "claims.json"
        command = [sys.executable, str(script), *words.split()]
        code = _exit_code(command, {**os.environ, CLAIMS: str(file)}, seconds)
        if code is None:
            title = title_of(ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))))
            return [Claim(title, f"stopped after {seconds:,.0f} s", "not run")]
        found = [Claim(*row) for row in json.loads(file.read_text(encoding="utf-8"))] if file.exists() else []
    title = title_of(ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))))
    if code == USAGE and not found:
        return [Claim(title, "it needs arguments: see its --help", "not run")]
    if code and not any(claim.verdict == "NO" for claim in found):
        found.append(Claim(title, f"ended with exit code {code}", "NO"))
    return found or [Claim(title, "checked by assertions", "holds")]


def _exit_code(words: list[str], environment: dict[str, str], seconds: float | None) -> int | None:
    """Run a command; None if it was stopped after so many `seconds`.

    When it is stopped, as at Ctrl-C, it has time to delete what it wrote, which `subprocess.run` would not give it.
    """
    child = subprocess.Popen(words, env=environment)
    _running.add(child)
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGINT)
        try:
            child.wait(GRACE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        return None
    finally:
        _running.discard(child)


def stop_all() -> None:
    """End the scripts that run after Ctrl-C."""
    _stopped.set()
    for child in list(_running):
        try:
            child.wait(GRACE)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)


def ended(script: Path, source: str, words: str, seconds: float | None) -> Ended:
    print(f"== {script.name} {words}".rstrip(), flush=True)
    began = time.perf_counter()
    return Ended(claims_of(script, words, seconds), round(time.perf_counter() - began, 1), source, words)


def how_run(words: dict[str, str], seconds: float | None, jobs: int) -> str:
    """In words how scripts are run, where that is not one by one and as they are."""
    stopped = "" if seconds is None else f"each script for {seconds:,.0f} s at most"
    less = "some smaller or on a device, with the options beside their names" if words else ""
    return "; ".join(filter(None, (stopped, less, ALONE.format(jobs) if jobs > 1 else "")))


def show(found: dict[str, Ended], smaller: dict[str, str], how: str) -> None:
    """All claims as a table, and how many of them hold; `smaller`: options of scripts that were run with some."""
    table = Table("script", "claim", "measured", "holds", "seconds")
    if how:
        table.add_row("", how, "", "", "")
        table.add_section()
    for name, end in found.items():
        for number, claim in enumerate(end.claims):
            shown = escape(f"{name} {smaller.get(name, '')}".rstrip())
            first = (shown, f"{end.seconds:,.0f}") if number == 0 else ("", "")
            table.add_row(first[0], *map(escape, claim), first[1])
        table.add_section()
    console = Console()
    Console(width=console.width if console.is_terminal else WIDTH).print(table)
    verdicts = Counter(claim.verdict for end in found.values() for claim in end.claims)
    counts = ", ".join(f"{verdict} {verdicts[verdict]}" for verdict in get_args(Verdict) if verdicts[verdict])
    print(f"Scripts: {len(found)}. Claims: {counts or 'none'}")


def columns(files: list[Path]) -> str:
    """What files of --resume keep as a table of Markdown: a row for every claim, a column for every machine.

    Of a script with many claims those that hold everywhere are one row.
    """
    every = [Kept.read(file, "") for file in files]
    lines = [f"- {kept.machine}: {kept.how or 'one script after the other, as they are'}." for kept in every]
    lines += ["", f"| claim | limit | {' | '.join(kept.machine for kept in every)} |", "|---" * (2 + len(every)) + "|"]
    for name in sorted({name for kept in every for name in kept.scripts}):
        ends = [kept.scripts.get(name) for kept in every]
        lines.append(_heading(name, [None if end is None else end.words for end in ends]))
        claims: dict[str, list[Claim | None]] = {}
        for number, end in enumerate(ends):
            for claim in end.claims if end is not None else []:
                claims.setdefault(claim.words, [None] * len(every))[number] = claim
        held = {
            words: row for words, row in claims.items() if all(claim in (None, "holds") for claim in map(_end, row))
        }
        folded = held if len(held) > ROWS else {}
        lines += [_row(words, row) for words, row in claims.items() if words not in folded]
        if folded:
            rest = (sum(row[number] is not None for row in folded.values()) for number in range(len(every)))
            lines.append(
                f"| {len(folded)} others | | {' | '.join(f'{count} hold' if count else '' for count in rest)} |"
            )
    return "\n".join(lines)


def _heading(name: str, options: list[str | None]) -> str:
    """The row above the claims of a script, with the options that it was run with: of each machine, if they differ."""
    given, title = {words for words in options if words is not None}, f"**{name.replace('_', ' ')}**"
    if len(given) == 1:
        title += "".join(f" `{words}`" for words in given if words)
        return f"| {title} |" + " |" * (1 + len(options))
    cells = ["" if words is None else f"`{words}`" if words else "as it is" for words in options]
    return f"| {title} | | {' | '.join(cells)} |"


def _end(claim: Claim | None) -> Verdict | None:
    return None if claim is None else claim.verdict


def _row(words: str, row: list[Claim | None]) -> str:
    """A claim, its limit, and what was measured of it on each machine; the verdict where it does not hold."""
    parts = [("", "") if claim is None else _measured(claim) for claim in row]
    limit = next((own for _, own in parts if own), "")
    cells = [
        "" if claim is None else _cell(claim.verdict, value, own if own != limit else "", told=bool(own))
        for claim, (value, own) in zip(row, parts, strict=True)
    ]
    return f"| {words} | {limit} | {' | '.join(cells)} |"


def _measured(claim: Claim) -> tuple[str, str]:
    """What was measured, and the limit of the claim; "" where it has none."""
    found = LIMITED.fullmatch(claim.measured)
    return (found[1] + found[3], found[2]) if found else (claim.measured, "")


def _cell(verdict: Verdict, value: str, limit: str, *, told: bool) -> str:
    """What was measured; `limit`: if it is another one than beside the claim; `told`: whether there is one at all."""
    shown = (f"{value} ({limit})" if limit else value).replace("|", "\\|")
    if verdict == "holds":
        return shown if told else verdict
    return f"**{shown}: NO**" if verdict == "NO" else f"{shown}: {verdict}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="scripts to run; all without")
    parser.add_argument("--resume", type=Path, help="file that keeps what scripts said, and is gone on from")
    parser.add_argument("--quick", action="store_true", help="run scripts smaller, and stop those that take long")
    parser.add_argument("--minutes", type=float, help="stop each script after so long")
    parser.add_argument("--jobs", type=int, default=1, help="scripts that run at a time")
    parser.add_argument("--device", help="for scripts that can be run there, such as cuda")
    parser.add_argument("--columns", type=Path, nargs="+", metavar="FILE", help="show these files, and run nothing")
    options = parser.parse_args()
    if options.columns:
        print(columns(options.columns))
        return 0
    minutes = QUICK_MINUTES if options.quick and options.minutes is None else options.minutes
    seconds, smaller = None if minutes is None else 60.0 * minutes, dict(QUICK) if options.quick else {}
    names = {Path(name).stem for name in options.names}
    scripts = benchmarks()
    unknown = names - {path.stem for path in scripts}
    if unknown:
        parser.error(f"there is no benchmark {sorted(unknown)[0]!r} in {HERE}")
    chosen = [path for path in scripts if not names or path.stem in names]
    for path in chosen if options.device else []:
        if DEVICE in path.read_text(encoding="utf-8"):
            smaller[path.stem] = f"{smaller.get(path.stem, '')} --device {options.device}".strip()
    how = how_run(smaller, seconds, options.jobs)
    kept, found, stopped = Kept.read(options.resume, how), dict[str, Ended](), False
    library, one_writes = versions()["source"], Lock()
    _stopped.clear()

    def run_one(path: Path, again: bool = False) -> None:
        words = smaller.get(path.stem, "")
        source, end = source_of(path, library, words), kept.scripts.get(path.stem)
        if end is None or not end.met or end.source != source or again:
            end = ended(path, source, words, seconds)
            if _stopped.is_set():
                return
        with one_writes:
            found[path.stem] = kept.scripts[path.stem] = end
            if options.resume is not None:
                kept.write(options.resume)

    try:
        with ThreadPoolExecutor(options.jobs) as pool:
            try:
                for running in [pool.submit(run_one, path) for path in chosen]:
                    running.result()
            except KeyboardInterrupt:
                stop_all()
                raise
            finally:
                pool.shutdown(cancel_futures=True)
        for path in chosen if options.jobs > 1 else []:
            if any(claim.verdict in ("NO", "within the margin") for claim in found[path.stem].claims):
                run_one(path, again=True)
    except KeyboardInterrupt:
        stopped = True
    found = {path.stem: found[path.stem] for path in chosen if path.stem in found}
    show(found, {name: words for name, words in smaller.items() if name in found}, how)
    if stopped:
        print("stopped; what is not in the table was not run to its end")
        return 130
    return int(any(claim.verdict == "NO" for end in found.values() for claim in end.claims))


if __name__ == "__main__":
    sys.exit(main())
