"""The page that `--report` makes of a results file."""

from __future__ import annotations

import itertools
import json
import re
import statistics
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import pytest

from homespec.benchmark import page
from homespec.benchmark.cells import TargetFigures, compare_targets
from homespec.benchmark.figures import acceptance_by_position, time_shares, width_shares
from homespec.benchmark.headline import write_headline
from homespec.benchmark.palette import COLORS, GRID, INK, MUTED, SLOTS, SURFACE, arm_styles
from homespec.benchmark.report import RESULTS_FILE, write_report
from homespec.benchmark.results import Results, read_results
from homespec.errors import ConfigError
from tests.support.bench_results import (
    Record,
    difference,
    replies,
    run,
    session,
    target,
    usual,
    write,
)

VOID = {"meta", "link", "br"}
HOSTILE = """<script>alert("1")</script> & 'x' onload="y" $\\frac{$ {{ 7*7 }}"""


class Page(HTMLParser):
    """What a browser would see of a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.cells: list[tuple[str, str]] = []
        """Text of every cell of a table, and the lines that it or its row names."""
        self._row_lines = ""
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        attributes = {name: value or "" for name, value in attrs}
        self.attributes.append((tag, attributes))
        if tag == "tr":
            self._row_lines = attributes.get("data-lines", "")
        elif tag == "td":
            self.cells.append(("", attributes.get("data-lines", self._row_lines)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if "td" in self.open and "span" not in self.open:
            text, lines = self.cells[-1]
            self.cells[-1] = (text + data, lines)

    def values(self, attribute: str) -> list[str]:
        return [attributes[attribute] for _, attributes in self.attributes if attribute in attributes]


def read(tmp_path: Path, records: list[Record]) -> Results:
    return read_results(write(tmp_path / "in.jsonl", records))


def figures(tmp_path: Path, records: list[Record]) -> TargetFigures:
    (only,) = compare_targets(read(tmp_path, records))
    return only


def render(tmp_path: Path, records: list[Record]) -> Page:
    """The page without plots, which needs no matplotlib."""
    results = read(tmp_path, records)
    return Page(page.render(results, [(figures, []) for figures in compare_targets(results)], RESULTS_FILE))


def report(tmp_path: Path, records: list[Record]) -> Page:
    """The page with plots."""
    path = write_report(write(tmp_path / "in.jsonl", records), tmp_path / "report")
    return Page(path.read_text(encoding="utf-8"))


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    found = report(tmp_path, usual())
    assert not found.tags["script"]
    assert not found.values("src")
    assert not re.search(r"https?:|url\((?!#)|@import|//[a-z]", found.source)
    for reference in found.values("href"):
        if not reference.startswith(("#", "data:")):
            assert (tmp_path / "report" / reference).is_file(), reference
    ids = found.values("id")
    assert len(set(ids)) == len(ids)
    assert {"headline", "target-1", "provenance", "reading"} <= set(ids)
    for reference in re.findall(r'(?:href="|url\()#([^")]+)', found.source):
        assert reference in ids
    assert (tmp_path / "report" / RESULTS_FILE).read_bytes() == (tmp_path / "in.jsonl").read_bytes()


def test_every_number_refers_to_lines_that_exist(tmp_path: Path) -> None:
    records = [*usual(), difference("auto", "maths", 1), difference("ngram 5", "chat", 2, near_tie=False)]
    found = report(tmp_path, records)
    traced = found.values("data-lines")
    assert len(traced) > 100
    for lines in traced:
        numbers = [int(number) for number in lines.split()]
        assert numbers == sorted(set(numbers))
        assert all(1 <= number <= len(records) for number in numbers)
        assert not any(records[number - 1].get("warm_up") for number in numbers) or len(numbers) == 9
    assert found.cells
    for text, lines in found.cells:
        assert lines or not re.search(r"\d", text), text


def test_all_plots_are_there_twice(tmp_path: Path) -> None:
    found = report(tmp_path, usual())
    assert found.tags["svg"] == 5
    for name in ("speedup", "cost-curve", "time", "acceptance", "memory"):
        stem = tmp_path / "report" / f"target-1-{name}"
        assert stem.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        standalone = stem.with_suffix(".svg").read_text(encoding="utf-8")
        assert ElementTree.fromstring(standalone).tag == "{http://www.w3.org/2000/svg}svg"
        assert "prefers-color-scheme:dark" in standalone
    drawn = "".join(re.findall(r"<svg.*?</svg>", found.source, re.DOTALL))
    assert "currentColor" in drawn
    assert not re.findall(r"#[0-9a-f]{6}\b", drawn), "a colour that does not follow the page's"


def test_points_of_plots_name_their_lines(tmp_path: Path) -> None:
    records = usual()
    found = report(tmp_path, records)
    lines = [
        i for i, record in enumerate(records, 1) if record.get("arm") == "auto" and not record["warm_up"]
    ]
    share = f'data-lines="{" ".join(map(str, lines))}">\\s*<title>auto: 60.0% of its decodes had width 4'
    assert re.search(share, found.source)
    assert re.search(r'data-lines="2">\s*<title>width 4 behind 0 tokens: 1.450 times width 1', found.source)


def test_figures_of_a_cell(tmp_path: Path) -> None:
    records = usual()
    cell = figures(tmp_path, records).cells["code", "auto"]
    own = [
        record
        for record in records
        if (record.get("scenario"), record.get("arm"), record.get("warm_up")) == ("code", "auto", False)
    ]
    seconds = sum(record["seconds"] for record in own)
    assert cell.whole is not None
    assert cell.decode is not None
    assert cell.whole.value == pytest.approx((800 / seconds) / 10)
    assert cell.decode.value == pytest.approx(80 / sum(record["decode_seconds"] for record in own) * 0.9)
    assert cell.whole.interval is not None
    low, high = cell.whole.interval
    assert 1.8 <= low < cell.whole.value < high <= 1.8 * 1.06
    assert cell.whole.num_prompts == 4
    assert len(cell.whole.lines) == 16
    row = page._row(cell)
    median_ttft = statistics.median(record["ttft_seconds"] for record in own)
    assert [value.text for value in row["values"]] == [
        f"{800 / seconds:.2f}",
        f"{8 * 99 / sum(record['decode_seconds'] for record in own):.2f}",
        f"{1 + 60 / 40:.2f}",
        f"{median_ttft:.2f} s",
        "1.35 GB",
        "200 MB",
        "1.1 GB",
        "2.500",
    ]


def test_scenarios_together_are_a_geometric_mean(tmp_path: Path) -> None:
    found = figures(tmp_path, usual())
    wholes = [cell.whole for (_, arm), cell in found.cells.items() if arm == "auto"]
    ratios = [whole.value for whole in wholes if whole is not None]
    assert found.overall["auto"].value == pytest.approx(statistics.geometric_mean(ratios))
    assert found.overall["auto"].scenarios == ("code", "chat", "maths")
    assert "plain" not in found.overall


def test_shares_and_positions(tmp_path: Path) -> None:
    runs = figures(tmp_path, usual()).runs_of("auto")
    assert {width: share.value for width, share in width_shares(runs).items()} == {1: 0.2, 4: 0.6, 6: 0.2}
    positions = acceptance_by_position(runs)
    assert [(p.position, p.rate, p.num_drafted) for p in positions] == [
        (1, 0.8, 960),
        (2, 0.45, 960),
        (3, 0.25, 960),
    ]
    assert time_shares(runs) == pytest.approx(
        {"prefill": 0.09, "draft": 0.02, "verify": 0.84, "sample": 0.03, "other": 0.02}
    )
    assert time_shares([]) == {}


def test_the_headline_tells_gains_and_losses_alike(tmp_path: Path) -> None:
    headline = write_headline(figures(tmp_path, usual()))
    assert headline.answer == "pays"
    text = " ".join(sentence.text for sentence in headline.sentences)
    # Four prompts of each scenario are few, twelve of all are not.
    few = ", as far as so few prompts can tell"
    assert headline.title.startswith("Speculative decoding pays on this machine: with auto, 1.20 times")
    assert f"Faster{few}: code (1.85)." in text
    assert f"Slower{few}: chat (0.93)." in text
    assert f"No clear difference{few}: maths (1.00)." in text
    assert "The fastest of the other arms was ngram 5" in text
    assert [outcome.best_arm for outcome in headline.outcomes] == ["auto", "auto", "auto"]


@pytest.mark.parametrize(
    ("auto", "fixed", "answer", "claim"),
    [
        (0.8, 0.7, "does-not-pay", "does not pay on this machine: with auto, 0.82 times the speed of plain"),
        (0.8, 1.3, "unclear", "pays on this machine: with ngram 5, but not with auto"),
        (1.0, 0.9, "unclear", "no clear difference between auto and plain"),
    ],
)
def test_negative_results_are_said_plainly(
    tmp_path: Path, auto: float, fixed: float, answer: str, claim: str
) -> None:
    speeds = {name: {"plain": 1.0, "ngram 5": fixed, "auto": auto} for name in ("code", "chat")}
    headline = write_headline(figures(tmp_path, [session(), target(), *replies(speeds)]))
    assert headline.answer == answer
    assert claim in headline.title


def test_an_arm_of_fewer_scenarios_does_not_lead(tmp_path: Path) -> None:
    speeds = {
        "code": {"plain": 1.0, "ngram 5": 1.2, "draft-model 5": 3.0},
        "chat": {"plain": 1.0, "ngram 5": 1.1},
    }
    headline = write_headline(figures(tmp_path, [session(), target(), *replies(speeds)]))
    assert headline.arm == "ngram 5"
    assert not [sentence for sentence in headline.sentences if "draft-model 5" in sentence.text]
    assert headline.outcomes[0].best_arm == "draft-model 5"


def test_no_speedup_where_texts_differ(tmp_path: Path) -> None:
    records = [*usual(), difference("auto", "code", 1, near_tie=False), difference("auto", "chat", 1)]
    found = figures(tmp_path, records)
    cell = found.cells["code", "auto"]
    assert cell.whole is None
    assert cell.refusal is not None
    assert cell.refusal.text == "texts differ beyond near ties (1 of 8)"
    assert cell.refusal.lines == (len(records) - 1,)
    assert found.cells["chat", "auto"].whole is not None
    assert found.overall["auto"].scenarios == ("chat", "maths")
    text = render(tmp_path, records).text
    assert "No speedup is given for code: texts differ beyond near ties (1 of 8)." in text
    assert "0.0123" in text


def test_a_different_text_that_nobody_explains_is_not_trusted(tmp_path: Path) -> None:
    other = run("auto", text_sha256="other")
    records = [session(), target(), run("plain"), other]
    refusal = figures(tmp_path, records).cells["code", "auto"].refusal
    assert refusal is not None
    assert refusal.text == "1 of 1 texts differ, and the file does not say where"
    # When tokens are drawn, texts differ anyway; behind a near tie, greedy ones may.
    drawn = [session(settings={"temperature": 0.8}), *records[1:]]
    assert figures(tmp_path, drawn).cells["code", "auto"].whole is not None
    tied = figures(tmp_path, [*records, difference("auto")]).cells["code", "auto"]
    assert tied.whole is not None
    assert [remark.text for remark in tied.remarks] == ["1 of 1 texts part from plain's at a near tie"]


def test_a_fixed_arm_whose_drafter_was_dropped(tmp_path: Path) -> None:
    dropped: Record = {"reason": "drafter_failed"}
    records = [session(), target(), run("plain"), run("ngram 5", **dropped), run("auto", **dropped)]
    found = figures(tmp_path, records)
    refusal = found.cells["code", "ngram 5"].refusal
    assert refusal is not None
    assert refusal.text == "the drafter was dropped in 1 of 1 replies (drafter_failed)"
    assert found.cells["code", "auto"].whole is not None
    assert found.cells["code", "auto"].remarks[0].text == "drafter_failed in 1 of 1 replies"


def test_one_prompt_has_no_interval(tmp_path: Path) -> None:
    speeds = {"code": {"plain": 1.0, "auto": 2.0}}
    found = figures(tmp_path, [session(), target(), *replies(speeds, num_prompts=1)])
    assert found.overall["auto"].interval is None
    assert found.overall["auto"].value == pytest.approx(2.0)
    headline = write_headline(found)
    assert headline.title.startswith("One prompt cannot tell whether")
    assert "no interval, since one prompt cannot tell" in headline.sentences[0].text
    assert headline.sentences[1].text == "One prompt, which cannot tell: code (2.00)."
    # Several scenarios of one prompt each are several prompts.
    several = replies({name: speeds["code"] for name in ("code", "chat", "maths")}, num_prompts=1)
    together = figures(tmp_path, [session(), target(), *several]).overall["auto"]
    assert together.interval == pytest.approx((2.0, 2.0))
    assert "ratio of the sums" in together.how


def test_only_paired_replies_are_compared(tmp_path: Path) -> None:
    records = [run("plain", prompt=0), run("auto", prompt=0, seconds=5.0), run("auto", prompt=1, seconds=1.0)]
    cell = figures(tmp_path, [session(), target(), *records]).cells["code", "auto"]
    assert cell.whole is not None
    assert cell.whole.value == pytest.approx(2.0)
    assert cell.remarks[0].text == "1 of 2 replies have a plain one"


@pytest.mark.parametrize(
    ("records", "saying"),
    [
        ([], "The file holds no reply."),
        ([run("plain", warm_up=True)], "The file holds no reply beyond 1 warm-up."),
        ([run("auto")], "No plain reply to compare with."),
        ([run("plain")], "No measured reply."),
        ([run("plain"), run("auto", prompt=1)], "No prompt was answered by plain as well."),
        ([run("plain", tokens=0), run("auto", tokens=0)], "No reply has a token."),
    ],
)
def test_a_page_that_cannot_tell_says_why(tmp_path: Path, records: list[Record], saying: str) -> None:
    found = render(tmp_path, [session(), target(), *records])
    assert "This file does not tell whether speculative decoding pays." in found.text
    assert saying in found.text


def test_plots_that_cannot_be_drawn_say_why(tmp_path: Path) -> None:
    unknown: Record = {"rss_anon_bytes": 0, "rss_file_bytes": 0, "peak_rss_bytes": 0}
    records = [session(), target(curve=None, planned_bytes=None), run("plain", **unknown)]
    text = report(tmp_path, records).text
    assert "no reply could be compared with a plain one" in text
    assert "the cost curve of this target was not measured" in text
    assert "no arm drafted a token" in text
    assert "the memory of no reply is known" in text
    assert "there is no measured reply" in report(tmp_path, [session(), target()]).text


def test_a_run_that_ended_before_its_first_target(tmp_path: Path) -> None:
    assert "This file names no target" in report(tmp_path, [session()]).text


def test_what_is_not_known_is_a_dash(tmp_path: Path) -> None:
    unknown: Record = {"energy_joules": None, "temperature_celsius": None, "throttled": None}
    records = [session(), run("plain", **unknown), run("auto", num_drafts=0, decode_seconds=0.0, **unknown)]
    row = page._row(figures(tmp_path, records).cells["code", "auto"])
    assert [value.text for value in row["values"]][-1] == "-"
    assert row["values"][1].text == "-"
    assert row["values"][2].text == "no drafts"
    assert row["decode"].text == "-"
    assert "The file does not say what was planned." in render(tmp_path, records).text


def test_conditions_are_told(tmp_path: Path) -> None:
    hot: Record = {"throttled": True, "temperature_celsius": 97.0, "major_faults": 3, "finish_reason": "stop"}
    text = render(tmp_path, [session(), target(), run("plain"), run("auto", **hot)]).text
    for expected in ("97 °C", "1 of 1", "throttled in 1 of 1 replies", "3 major page faults", "stop 1"):
        assert expected in text


def test_nothing_in_the_file_becomes_markup(tmp_path: Path) -> None:
    strange = HOSTILE + "\ud800\x00\n한국어"
    arms = ["plain", HOSTILE, f"_{HOSTILE}", "auto"]
    records: list[Record] = [
        session(arms, build=strange, machine={HOSTILE: strange}, models=[{HOSTILE: strange}]),
        target(strange, plan={"explanation": strange}, draft=strange),
    ]
    for arm in arms:
        for prompt in range(2):
            records.append(run(arm, strange, prompt, target=strange, finish_reason=strange, reason=strange))
    records.append(difference("auto", strange, target=strange))
    found = report(tmp_path, records)
    assert not found.tags["script"]
    assert not [name for _, attributes in found.attributes for name in attributes if name.startswith("on")]
    assert "<script>alert" in found.text
    assert "{{ 7*7 }}" in found.text


def test_a_file_that_was_cut_off(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", usual())
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    results = read_results(path)
    assert results.truncated
    assert results.num_lines == len(usual()) - 1
    text = page.render(results, [], RESULTS_FILE)
    assert f"The file ends within line {len(usual())}" in text
    # A line that only lacks its end is whole.
    path.write_bytes(whole.removesuffix(b"\n"))
    results = read_results(path)
    assert not results.truncated
    assert results.num_lines == len(usual())


def test_lines_of_later_versions_are_left_out_and_named(tmp_path: Path) -> None:
    records = [session(), {"record": "weather"}, {"record": "weather"}, run("plain", new_field=1)]
    assert "do not know were left out" not in render(tmp_path, [session()]).text
    assert "left out: weather (2)" in render(tmp_path, records).text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "0 session lines"),
        ("no JSON\n", "Line 1 of"),
        ("[1, 2]\n", "Line 1 of"),
        ('{"prompt": "hello"}\n', "0 session lines"),
        (f"{json.dumps(session())}\n" * 2, "2 session lines"),
        (f"{json.dumps(run('plain'))}\n{json.dumps(session())}\n", "1 session lines"),
        (f'{json.dumps(session())}\n{{"record": "run"\n{json.dumps(run("plain"))}\n', "Line 2 of"),
        (f"{json.dumps(session())}\n{json.dumps(run('plain'))[:-30]}\n", "Line 2 of"),
    ],
)
def test_files_that_are_no_results(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        read_results(path)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("seconds", -1.0),
        ("seconds", float("nan")),
        ("seconds", "10"),
        ("seconds", None),
        ("tokens", True),
        ("tokens", 1.5),
        ("tokens", 10**400),
        ("warm_up", 1),
        ("arm", 5),
        ("width_counts", {"wide": 1}),
        ("width_counts", [1]),
        ("drafted_per_position", [1, "2"]),
    ],
)
def test_values_that_cannot_be(tmp_path: Path, field: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"Line 2 of .* has a value of {field} that cannot be one"):
        read(tmp_path, [session(), run("plain") | {field: value}])


def test_fields_that_are_missing(tmp_path: Path) -> None:
    record = run("plain")
    del record["tokens"]
    with pytest.raises(ConfigError, match=r"Line 2 of .* has no tokens"):
        read(tmp_path, [session(), record])
    with pytest.raises(ConfigError, match=r"Line 2 of .* has a curve that is no cost curve"):
        read(tmp_path, [session(), target(curve={"widths": [2]})])


def test_files_and_directories_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_results(tmp_path / "absent.jsonl")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match="matplotlib") as caught:
        write_report(write(tmp_path / "in.jsonl", usual()), tmp_path / "report")
    assert caught.value.hint == "pip install 'homespec[bench]'"
    assert not (tmp_path / "report").exists()
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="cannot be written"):
        write_report(tmp_path / "in.jsonl", tmp_path / "in.jsonl" / "below")


def test_a_report_beside_its_results_can_be_made_again(tmp_path: Path) -> None:
    path = write(tmp_path / RESULTS_FILE, usual())
    first = write_report(path, tmp_path).read_bytes()
    assert write_report(path, tmp_path).read_bytes() == first


def linear_channels(color: str) -> list[float]:
    """Red, green and blue, proportional to light."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]


def luminance(color: str) -> float:
    """Relative luminance, WCAG 2."""
    red, green, blue = linear_channels(color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_colors_stand_out_from_their_page(mode: str) -> None:
    for color in COLORS:
        if color not in (GRID, SURFACE):
            least = 4.5 if color in (INK, MUTED, *SLOTS) else 3
            assert contrast(getattr(color, mode), getattr(SURFACE, mode)) >= least, color


def test_arms_keep_their_drafters_color() -> None:
    styles = arm_styles(["plain", "ngram 3", "ngram 5", "draft-model 5", "auto", "peer a", "peer b 2"])
    assert styles["ngram 3"].color == styles["ngram 5"].color
    assert styles["ngram 3"].dashes != styles["ngram 5"].dashes
    assert len({style.color for style in styles.values()}) == 6
    assert len({color.light for color in COLORS}) == len(COLORS)


# How colours look to people without one of the three kinds of cones: linear RGB, Machado et al. 2009.
BLINDNESS = {
    "none": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deuteranopia": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
# Linear RGB -> cone responses -> OKLab (Ottosson 2020), where distances are what eyes see.
CONES = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
OKLAB = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]


def seen(color: str, blindness: str) -> npt.NDArray[np.float64]:
    """OKLab coordinates of a colour as someone sees it."""
    visible = np.clip(np.array(BLINDNESS[blindness]) @ np.array(linear_channels(color)), 0, 1)
    coordinates: npt.NDArray[np.float64] = np.array(OKLAB) @ np.cbrt(np.array(CONES) @ visible)
    return coordinates


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("blindness", BLINDNESS)
def test_color_blind_readers_tell_arms_apart(mode: str, blindness: str) -> None:
    styles = arm_styles(["ngram 5", "draft-model 5", "ngram+draft-model 5", "auto"])
    drafters = [getattr(style.color, mode) for style in styles.values()]
    stacked = [getattr(color, mode) for color in SLOTS]
    for colors, least in ((itertools.combinations(drafters, 2), 0.1), (itertools.pairwise(stacked), 0.08)):
        for one, other in colors:
            assert np.linalg.norm(seen(one, blindness) - seen(other, blindness)) > least, (one, other)
