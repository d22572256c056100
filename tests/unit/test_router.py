"""The kinds of text, on prompts written for this test, and the spans where longer matches are wanted."""

from __future__ import annotations

import json

import pytest

from homespec.drafting.router import KINDS, Kind, classify, in_structured_span, repeated_share

# At least this share of the labelled prompts is told right before the reply has begun.
ACCURACY_FLOOR = 0.9

LABELLED: dict[Kind, list[str]] = {
    "editing": [
        'Complete this function.\n\n```python\ndef mean(values):\n    """Average of the values."""\n```',
        "It crashes. Fix it.\n\nclass Stack:\n    def pop(self):\n        return self.items.pop(0)\n",
        "Refactor to async/await:\n\nfunction load(url) {\n  return fetch(url).then(r => r.json());\n}",
        "Add error handling to\n\nfn read(path: &str) -> String {\n    fs::read_to_string(path).unwrap()\n}",
        "이 함수에 타입 힌트를 붙여 줘.\n\ndef area(width, height):\n    return width * height\n",
    ],
    "code": [
        "Write a Python function that merges two sorted lists.",
        'Why does this loop never end?\n```c\nwhile (i < 10) { printf("%d", i); }\n```',
        "How do I read a file line by line in Rust?",
        "Complete the following:\n\n```python\ndef is_leap(year: int) -> bool:\n    ...\n```",
        "Give me a bash script that deletes log files older than 30 days.",
        "Explain the difference between a struct and a class in C++.",
        "Write a SQL query that lists the ten customers with the most orders.",
        "파이썬으로 피보나치 수열을 구하는 함수를 작성해줘.",
        "Schreibe ein Programm in Java, das eine Datei kopiert.",
        "My unittest fails with AttributeError: 'NoneType' object has no attribute 'get'. What now?",
        "用 Python 写一个快速排序函数。",
    ],
    "maths": [
        "A baker makes 14 loaves a day and sells 11 of them. How many loaves are left after 6 days?",
        "Solve the equation 3x + 7 = 22 for x.",
        "Simplify $\\frac{x^2 - 9}{x + 3}$.",
        "What is the probability of rolling two sixes with two dice?",
        "Tickets cost $12 for adults and $7 for children. How much do 3 adults and 4 children pay?",
        "Compute the integral of x^2 from 0 to 3.",
        "Prove that the sum of two odd integers is even.",
        "사과가 12개 있었는데 5개를 먹고 3개를 더 샀다. 사과는 모두 몇 개인가?",
        "Berechne die Fläche: Wie viele Fliesen von 20 cm passen auf 4 Quadratmeter?",
        "The perimeter of a triangle is 36 and two of its sides are 10 and 12. Find the third side.",
        "Maria is three times as old as her son, who is nine. How old is Maria?",
    ],
    "structured": [
        "Return a JSON object with the keys name, age and city for a fictional person.",
        "List the planets with their radius and number of moons as a table.",
        "Generate a YAML configuration for a service with two replicas.",
        "Extract the dates from this text and answer only with valid JSON: We met on 3 May and on 9 June.",
        "Create an XML document that describes a library with three books.",
        "Give me the five largest countries in CSV format with area and population.",
        "한국의 광역시를 인구와 함께 표로 정리해줘.",
        "Make a comparison table of coffee and tea.",
        'You have these tools: <tools>[{"name": "get_weather"}]</tools> What is the weather in Oslo?',
        "Erstelle eine Liste von fünf Hauptstädten als JSON.",
    ],
    "rewriting": [
        "Correct the grammar of the following text:\nHe go to school yesterday and have seen a bird on tree.",
        'Translate into French: "The train leaves at noon, and we should not be late for it."',
        "Summarize this article:\n\nThe council met on Monday to discuss the new bridge. Some raised doubts.",
        "Rewrite the paragraph below in a formal tone.\n\nHey folks, we kinda messed up your order, sorry!",
        "다음 글을 영어로 번역해줘:\n오늘은 날씨가 맑아서 공원에 산책을 나갔다. 사람이 많았다.",
        "아래 문장을 더 자연스럽게 다듬어줘.\n\n나는 어제 친구를 만났는데 그 친구가 나에게 책을 주었다.",
        "Proofread: Their going to announce the winer tomorow at the the main hall.",
        "Extract all names of people from this text: Anna met Boris while Clara was waiting for Dmitri.",
        "Übersetze ins Englische: Der Zug fährt um zwölf Uhr ab, und wir sollten pünktlich am Bahnhof sein.",
        "Corrige las faltas de este texto:\nAyer fuimos ha la playa y ise mucho calor.",
        "请把下面这段话翻译成英文:\n昨天我们去了山上。天气很好。我们看到了很多花。还有很多人在拍照。我们晚上才回家。",
    ],
    "chat": [
        "What should I cook tonight?",
        "Tell me about the history of Lisbon.",
        "I feel tired in the afternoon. Any advice?",
        "Write a short story about a lighthouse keeper.",
        "오늘 기분이 별로인데 뭘 하면 좋을까?",
        "Who was Ada Lovelace?",
        "What are the pros and cons of living in a small town?",
        "Plan a weekend in the mountains for a family.",
        "Pretend to be a pirate and introduce yourself.",
        "Warum ist der Himmel blau?",
        "How does a refrigerator work?",
    ],
}


def test_prompts_alone() -> None:
    wrong = [
        (label, classify(prompt, ""), prompt)
        for label, prompts in LABELLED.items()
        for prompt in prompts
        if classify(prompt, "").kind != label
    ]
    num_prompts = sum(map(len, LABELLED.values()))
    assert num_prompts >= 40
    assert 1 - len(wrong) / num_prompts >= ACCURACY_FLOOR, wrong


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_is_given_up(kind: Kind) -> None:
    right = sum(classify(prompt, "").kind == kind for prompt in LABELLED[kind])
    assert right / len(LABELLED[kind]) >= 0.8


def test_the_reason_and_the_points_are_shown() -> None:
    found = classify("Solve the equation 2x = 8.", "")
    assert found.reason == "The prompt speaks of maths."
    assert [kind for kind, _ in found.scores] == list(KINDS)
    assert dict(found.scores)["maths"] > dict(found.scores)["chat"] > 0
    assert classify("", "").reason == "Nothing speaks for another kind."


def test_what_the_reply_does_counts_for_more() -> None:
    prompt = "How do I start?"
    assert classify(prompt, "").kind == "chat"
    assert classify(prompt, "Like this:\n```python\nimport sys\n").kind == "code"
    assert classify(prompt, "Like this:\n```python\nimport sys\n```\nThat is all.").kind == "chat"
    assert classify(prompt, '{"steps": [{"name": "install", "command": "').kind == "structured"
    assert classify(prompt, "| step | what |\n|---|---|\n| 1 | install |\n").kind == "structured"
    assert classify(prompt, "We have 3 + 4 = 7 and 7 * 2 = 14, so x^2 = 14 - y = 5.").kind == "maths"


def test_a_reply_that_repeats_the_prompt() -> None:
    text = "The council met on Monday to discuss the new bridge, and several members raised doubts about it. "
    found = classify(f"What do you think of this? {text * 2}", f"{text}{text}")
    assert found.kind == "rewriting"
    assert "of the reply stands in the prompt" in found.reason


@pytest.mark.parametrize(
    ("reply", "low", "high"), [("", 0, 0), ("abcd" * 30, 1, 1), ("other words " * 10, 0, 0)]
)
def test_the_repeated_share(reply: str, low: float, high: float) -> None:
    assert low <= repeated_share("abcd" * 50, reply) <= high


def test_only_the_ends_of_a_long_prompt_are_read() -> None:
    filler = "The weather was fine. " * 2000
    assert classify(f"{filler}\nTranslate the text above:\n\n{filler[:100]}", "").kind == "rewriting"


@pytest.mark.parametrize(
    "reply",
    [
        "{",
        '{"name": "Al',
        '[\n  {"a": 1},\n  {"a": ',
        'Here it is:\n{"a": [1, 2',
        '{"text": "a } in a string", "more": ',
        '{"text": "an escaped \\" quote }", "more": ',
        "```json\n",
        "Sure.\n```yaml\nname: x\n",
        '<tool_call>\n{"name": "get_weather"}',
        '[TOOL_CALLS] [{"name": "f"}]',
        "```\n{\n",
    ],
)
def test_inside_a_structured_span(reply: str) -> None:
    assert in_structured_span(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "Hello there.",
        '{"name": "Alice"}',
        '{"name": "Alice"}\nThat is all.',
        "```json\n{}\n```\nDone",
        "```python\nvalues = {\n    'a': [",
        '<tool_call>{"name": "f"}</tool_call>\nNow',
        "As \\frac{1}{2 shows",
        "see [1] and [2",
        "the set {x : x > 0",
        "f([",
        "an array a[",
    ],
)
def test_outside_of_structured_spans(reply: str) -> None:
    assert not in_structured_span(reply)


def test_every_place_within_json_is_inside() -> None:
    text = json.dumps({"a": [1, {"b": "x } y", "c": [[]]}], "d": {"e": None}}, indent=1)
    # Within a string too: a key and a value are alike in that.
    assert all(in_structured_span(text[:end]) for end in range(1, len(text)))
    assert not in_structured_span(text)
