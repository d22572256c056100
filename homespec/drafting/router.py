"""What kind of text is being written? A prior for the choice of drafter and draft length.

A transparent classifier: countable features of the prompt and of the end of the reply each add points to a
kind, the kind with the most points wins, and the features that spoke for it are the reason that `--stats`
shows. It decides nothing about the text itself, only where the controller begins to look, so a mistake
costs a few steps of speed.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["code", "editing", "maths", "structured", "rewriting", "chat"]
KINDS: tuple[Kind, ...] = ("code", "editing", "maths", "structured", "rewriting", "chat")

# Instructions stand at either end of a prompt; what the reply is about to do shows in its last lines.
PROMPT_END_CHARS = 1000
REPLY_TAIL_CHARS = 1000
SPAN_CHARS = 8000
BRACKETS_CHARS = 2000
# Points that a conversation has from the start: a single weak sign does not make a text special.
CHAT_POINTS = 1.0


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CODE_WORDS = _words("""
    python javascript typescript java kotlin rust golang php ruby bash shell sql regex html css react numpy
    pandas django flask api def function method class code snippet script program algorithm implement
    implementation compile compiler debug bug refactor unittest pytest assert import return async lambda
    struct enum const boolean recursion recursive programm funktion código función fonction
""")
_CODE_PARTS = ("c++", "c#", "node.js", "#include")
_CODE_PARTS_ABROAD = ("함수", "코드", "파이썬", "프로그램", "函数", "代码", "関数", "コード")
_MATHS_WORDS = _words("""
    solve equation equations calculate compute evaluate simplify probability integral derivative integer
    integers triangle polynomial matrix vector theorem prove proof remainder divisible divided percent
    percentage ratio fraction perimeter sum product average arithmetic geometric algebra maths math total
    twice half gleichung berechne calcule ecuación équation résous resuelve
""")
_MATHS_PARTS = ("\\frac", "\\boxed", "\\sqrt", "\\sum", "\\int", "\\cdot", "\\times", "\\angle", "\\pi")
_MATHS_PARTS_ABROAD = ("방정식", "계산", "확률", "方程", "计算", "計算", "概率", "確率")
_QUANTITIES = (
    *("how many", "how much", "how long", "how far", "how old", "how fast", "in total", "altogether"),
    *("wie viele", "cuánt", "combien"),
)
_QUANTITIES_ABROAD = ("몇", "얼마", "多少", "几", "いくつ", "いくら")
_NUMBER_WORDS = _words("two three four five six seven eight nine ten twelve twenty hundred half twice thrice")
_FORMATS = r"(?:jsonl?|ya?ml|xml|toml|csv|tsv|tables?|tabelle|tabla|tableau)"
_STRUCTURED_WORDS = _words(
    "json jsonl yaml yml xml toml csv tsv table tables schema openapi tabelle tabla tableau"
)
_STRUCTURED_PARTS = ("<tool_call>", "<tools>", "function call", "tool call")
_STRUCTURED_PARTS_ABROAD = ("json", "표로", "표를", "表格", "表で")
_AS_FORMAT = re.compile(
    r"\b(?:as|in|into|to|return|returns|output|respond|reply|answer|format|valid|only|make|create|generate"
    rf"|als|en|como|sous)\W+(?:[\w-]+\W+){{0,4}}?{_FORMATS}\b"
)
_REWRITING_WORDS = _words("""
    edit rewrite rephrase paraphrase proofread translate summarize summarise summary shorten correct extract
    polish reformulate condense simplify convert revise fix copy repeat
    übersetze übersetzen korrigiere überarbeite zusammenfassen umschreiben fasse
    traduce traducir resume resumir corrige reescribe traduis traduire résume résumer corriger reformule
""")
_REWRITING_PARTS_ABROAD = (
    *("번역", "요약", "고쳐", "교정", "다듬", "다시 써", "바꿔", "추출"),
    *(
        "翻译",
        "翻譯",
        "总结",
        "摘要",
        "改写",
        "润色",
        "校对",
        "提取",
        "翻訳",
        "要約",
        "書き直",
        "校正",
        "添削",
    ),
)
# Text is given when something follows the instruction: a quotation, or lines after a colon.
_GIVEN = re.compile(r"[:\uff1a]\s*\n|(?::\s+|\uff1a)\S.{30}|[\"“«「『].{20}|\n\s*\n\s*\S|\n>", re.DOTALL)
_FENCE = re.compile(r"^[ \t]*```[ \t]*([\w+#-]*)", re.MULTILINE)
_DATA_LANGUAGES = frozenset(("json", "jsonl", "json5", "yaml", "yml", "xml", "toml", "csv"))
_CODE_LINE = re.compile(
    r"^\s*(?:def |class |import |from \w+ import |return\b|(?:for|if|while) .*[:{]$|(?:const|let|var) "
    r"|#include|public |private |fn |func |SELECT |INSERT |\}|@\w+|>>> |assert |[\w.\]\[]+ [+*/-]?= ).*$",
    re.MULTILINE,
)
_DEFINITION = re.compile(
    r"^[ \t]*(?:(?:async )?def|class|(?:pub )?fn|func|function"
    r"|(?:public|private|protected|static) [\w<>\[\] ]+?)[ \t]+\w+[ \t]*[(:{<]",
    re.MULTILINE,
)
_TABLE_ROW = re.compile(r"^\s*\|.*\|\s*$", re.MULTILINE)
# Scripts whose words are looked for as parts of words: particles and endings are written onto them.
_ABROAD = re.compile("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]")
_WORD = re.compile(r"\w+")

_TOOL_SPAN = re.compile(
    r"<(/?)\|?(?:tool_call|function_call|tool_code|tool_calls)(?:_begin|_end)?\|?>|\[TOOL_CALLS\]"
)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"?')
_BRACKET = re.compile(r"[{}\[\]]")
_JSON_OPENING = re.compile(r"\{\s*(?:\"|\}|$)|\[\s*(?:[\"{\[]|-?\d[\d.]*,[\d.,\s-]*$|$)")

# A kind, the points that it is given, and what for.
_Evidence = tuple[Kind, float, str]


@dataclass(frozen=True, slots=True)
class TextKind:
    """A kind of text, and why.

    Attributes:
        kind: the one with the most points.
        scores: points of each kind, in the order of `KINDS`.
        reason: one short sentence.
    """

    kind: Kind
    scores: tuple[tuple[Kind, float], ...]
    reason: str


def classify(prompt_text: str, reply_text: str) -> TextKind:
    """Says what kind of text the reply is.

    Args:
        prompt_text: the last message of the user, without the chat template.
        reply_text: the reply so far; empty before it begins.
    """
    evidence = [("chat", CHAT_POINTS, "nothing speaks for another kind"), *_evidence_of_prompt(prompt_text)]
    if reply_text:
        evidence += _evidence_of_reply(prompt_text, reply_text)
    scores = {kind: 0.0 for kind in KINDS}
    for kind, points, _ in evidence:
        scores[kind] += points
    # Code that is given stands in the reply again, changed here and there: that is another kind of code.
    if _gives_code(prompt_text):
        scores["editing"] = scores["code"] + 0.5
        evidence.append(("editing", scores["editing"], "the prompt gives code to work on"))
    winner = max(KINDS, key=scores.__getitem__)
    given = sorted((item for item in evidence if item[0] == winner and item[1]), key=lambda item: -item[1])
    reason = " and ".join(why for _, _, why in given[:2])
    return TextKind(
        kind=winner,
        scores=tuple((kind, round(points, 2)) for kind, points in scores.items()),
        reason=f"{reason[0].upper()}{reason[1:]}.",
    )


def in_structured_span(reply_text: str) -> bool:
    """Whether the reply is inside JSON, a tool call or a fenced block of data where it ends now.

    Short matches are then brackets, quotes and keys that say little about the value to come: the suffix
    drafter should ask for longer ones.
    """
    text = reply_text[-SPAN_CHARS:]
    tags = list(_TOOL_SPAN.finditer(text)) if "tool" in text.lower() or "function_call" in text else []
    if tags and not (tags[-1][1] or "_end" in tags[-1][0]):
        return True
    language = _open_fence(text)
    if language:
        return language in _DATA_LANGUAGES
    # What encloses the end is the nearest bracket that nothing closes.
    text = _STRING.sub('"', text[-BRACKETS_CHARS:])
    closed = 0
    for bracket in reversed(list(_BRACKET.finditer(text))):
        if bracket[0] in "}]":
            closed += 1
        elif closed:
            closed -= 1
        elif _free_standing(text, bracket.start()) and _JSON_OPENING.match(text, bracket.start()):
            return True
    return False


def _free_standing(text: str, position: int) -> bool:
    """Whether a bracket belongs to nothing before it, as those of LaTeX, calls and subscripts do."""
    return position == 0 or not (text[position - 1].isalnum() or text[position - 1] in "\\^_()}]")


def _open_fence(text: str) -> str | None:
    """The language of the code block that the text ends in (possibly ""); None outside of one."""
    if "```" not in text:
        return None
    fences = _FENCE.findall(text)
    return fences[-1].lower() if len(fences) % 2 else None


@functools.lru_cache(maxsize=16)
def _evidence_of_prompt(prompt_text: str) -> tuple[_Evidence, ...]:
    """Cached, since a reply asks again and again about one prompt."""
    text = prompt_text
    if len(text) > 2 * PROMPT_END_CHARS:
        text = f"{text[:PROMPT_END_CHARS]}\n{text[-PROMPT_END_CHARS:]}"
    lower = text.lower()
    sequence = _WORD.findall(lower)
    words = set(sequence)
    abroad = not lower.isascii() and _ABROAD.search(lower) is not None

    def count(wanted: frozenset[str], parts: tuple[str, ...], parts_abroad: tuple[str, ...]) -> int:
        """How many of the words, and of the parts of words, occur."""
        found = len(words & wanted) + sum(part in lower for part in parts)
        return found + sum(part in lower for part in parts_abroad) if abroad else found

    languages = {language.lower() for language in _FENCE.findall(text)[::2]}
    code = count(_CODE_WORDS, _CODE_PARTS, _CODE_PARTS_ABROAD)
    maths = count(_MATHS_WORDS, _MATHS_PARTS, _MATHS_PARTS_ABROAD)
    numbers = sum(word[0].isdigit() or word in _NUMBER_WORDS for word in sequence)
    asks = numbers >= 2 and count(frozenset(), _QUANTITIES, _QUANTITIES_ABROAD) > 0
    formulas = text.count("$") >= 2 and "\\" in text
    formats = count(_STRUCTURED_WORDS, _STRUCTURED_PARTS, _STRUCTURED_PARTS_ABROAD)
    as_format = formats > 0 and _AS_FORMAT.search(lower) is not None
    rewriting = count(_REWRITING_WORDS, (), _REWRITING_PARTS_ABROAD) > 0
    given = rewriting and len(text) > 40 and _GIVEN.search(text) is not None
    return (
        ("code", 2.0 * bool(languages - _DATA_LANGUAGES), "the prompt has a code block"),
        ("code", min(3.0, code), "the prompt speaks of code"),
        ("code", min(1.5, 0.5 * len(_CODE_LINE.findall(text))), "the prompt has lines of code"),
        ("maths", min(3.0, 0.8 * maths), "the prompt speaks of maths"),
        ("maths", 2.0 * asks, "the prompt gives numbers and asks for one"),
        ("maths", 1.5 * formulas, "the prompt has formulas"),
        ("structured", min(2.0, formats), "the prompt names a data format"),
        ("structured", 2.0 * as_format, "the prompt asks for a data format"),
        ("rewriting", 2.5 * given, "the prompt asks to work on a given text"),
        ("rewriting", 0.5 * rewriting, "the prompt has a verb of rewriting"),
    )


@functools.lru_cache(maxsize=16)
def _gives_code(prompt_text: str) -> bool:
    return _DEFINITION.search(prompt_text) is not None


def _evidence_of_reply(prompt_text: str, reply_text: str) -> tuple[_Evidence, ...]:
    tail = reply_text[-REPLY_TAIL_CHARS:]
    structured = in_structured_span(reply_text)
    in_code = not structured and _open_fence(reply_text[-SPAN_CHARS:]) is not None
    operators = 0 if structured or in_code else sum(map(tail.count, "=\\+*^$"))
    repeated = repeated_share(prompt_text, tail)
    return (
        ("structured", 3.0 * structured, "the reply is inside JSON or a tool call"),
        ("structured", 2.0 * (len(_TABLE_ROW.findall(tail)) >= 2), "the reply writes a table"),
        ("code", 3.0 * in_code, "the reply is inside a code block"),
        ("maths", min(2.0, 60 * operators / (len(tail) + 100)), "the reply calculates"),
        (
            "rewriting",
            4.0 * repeated * (repeated > 0.25),
            f"{repeated:.0%} of the reply stands in the prompt",
        ),
    )


def repeated_share(prompt_text: str, reply_text: str) -> float:
    """Which part of the reply's spans stand in the prompt as well, from up to 24 spans of 16 characters."""
    span, most = 16, 24
    last = len(reply_text) - span
    if last < 4 * span:
        return 0.0
    starts = range(0, last + 1, max(1, last // most))
    return sum(reply_text[start : start + span] in prompt_text for start in starts) / len(starts)
