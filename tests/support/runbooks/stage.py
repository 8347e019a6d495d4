"""Execute a page: what it is about is printed, its commands are typed, and then it is printed no more."""

from __future__ import annotations

from collections.abc import Callable, Collection
import re
from typing import Final, NamedTuple

from tests.support.runbooks.page import page_named
from tests.support.runbooks.scene import Scene
from tests.support.waiting import eventually

_LOG: Final = re.compile(r"\d{4}-\d\d-\d\dT\S+ \[")
_DEFECT: Final = re.compile(r"Traceback|\bunexpected [A-Z]\w+")
"""No answer of drkit has it, whatever the state of the pair."""
_SECONDS: Final = 90.0
Build = Callable[[Scene], None]


class Stage(NamedTuple):
    """How the page of one problem is executed."""

    page: str
    build: Build
    """Breaks the pair."""
    shows: str
    """A command that prints what the page is about, and changes nothing."""
    sentence: str
    """What it prints; empty: the first sentence of the page."""
    branches: Collection[str]
    """Conditions of the page, ``# if …``, that hold."""


class Stages(dict[str, Stage]):
    """Stages of a theme, by page."""

    def of(
        self, page: str, shows: str, sentence: str = "", *, branches: Collection[str] = ()
    ) -> Callable[[Build], Build]:
        """Register a function as the stage of a page."""

        def register(build: Build) -> Build:
            assert page not in self
            self[page] = Stage(page, build, shows, sentence, branches)
            return build

        return register


def execute(stage: Stage, scene: Scene) -> None:
    """Execute the page of a stage."""
    page = page_named(stage.page)
    sentence = stage.sentence or page.sentences[0]
    assert _is_in(sentence, page.text) or _words(sentence) in _words(page.text), (
        f"the page does not say: {sentence}"
    )
    stage.build(scene)
    shown: list[str] = []

    def is_printed() -> bool:
        return is_shown(stage.shows, sentence)

    def is_shown(line: str, words: str) -> bool:
        shown[:] = [scene.type(line).text]
        assert not _DEFECT.search(shown[0]), shown[0]
        return _is_in(words, shown[0])

    eventually(is_printed, _SECONDS, lambda: f"'{sentence}' by {stage.shows}\n{''.join(shown)}")
    for line in page.lines(stage.branches):
        scene.run(line)
    scene.after()
    if (end := scene.ends) is not None:
        eventually(lambda: is_shown(*end), _SECONDS, lambda: f"{end}\n{shown[0]}")
        return
    eventually(
        lambda: not is_printed(), _SECONDS, lambda: f"the end of '{sentence}' by {stage.shows}\n{shown[0]}"
    )


def _words(text: str) -> str:
    return " ".join(text.replace(">", " ").replace("`", "").split())


def _is_in(sentence: str, text: str) -> bool:
    """Return whether an answer has the sentence; the log beside it tells what was true before."""
    text = "\n".join(line for line in text.splitlines() if not _LOG.match(line))
    parts = [re.escape(part.strip()) for part in _words(sentence).split("…")]
    return re.search(".*".join(parts), _words(text)) is not None
