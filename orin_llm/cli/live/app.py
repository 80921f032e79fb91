"""The Textual app: keys, size, and drawing what the pump has seen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.message import Message

from orin_llm.cli.live.frame import Playing, footer, header
from orin_llm.cli.live.help import help_lines
from orin_llm.cli.live.layout import Scene, picture
from orin_llm.cli.live.lines import Lines
from orin_llm.cli.live.pump import Pump
from orin_llm.cli.live.sections import index_of
from orin_llm.cli.live.story import Story
from orin_llm.cli.live.text import Line, fitted

_DRAW_S = 0.2  # between two pictures at least: more often is seen by nobody


class MonitorApp(App[int]):
    """Shows a feed until the user, a signal or an error ends it. Its result is an exit code.

    Attributes:
        error: what ended it; None if that was no error.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; }
    Lines { background: ansi_default; height: 1fr; }
    #header, #footer { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+q", "end(0)", "quit"),
        Binding("ctrl+c", "end(130)", "interrupt", priority=True),
        Binding("ctrl+z", "suspend_process", "suspend"),
        Binding("p,space", "pause", "pause"),
        Binding("question_mark", "help", "help"),
        Binding("escape", "help(False)", "back"),
        Binding("tab,down", "engine(1)", "next engine", priority=True),
        Binding("shift+tab,up", "engine(-1)", "previous engine", priority=True),
        Binding("pagedown", "page(1)", "down"),
        Binding("pageup", "page(-1)", "up"),
    ]

    class Changed(Message):
        """There is something new to draw."""

    def __init__(
        self,
        scene: Scene,
        make_pump: Callable[[Callable[[], None]], Pump],
        playing: Playing,
        driver_class: type[Driver] | None = None,
    ) -> None:
        """`make_pump` gets what is to be called when something changes, in any thread."""
        super().__init__(driver_class=driver_class, ansi_color=True)
        self.animation_level = "none"
        self.error: Exception | None = None
        self.pump = make_pump(self._notify)
        self._scene = scene
        self._playing = playing
        self._frozen: Story | None = None
        self._chosen = ""  # an engine's name
        self._is_help = False
        self._is_notified = False
        self._drawn_s = 0.0
        self._loop_to_end: asyncio.AbstractEventLoop | None = None
        self._early_end: int | None = None

    def compose(self) -> ComposeResult:
        yield Lines(self._scene.glyphs, id="header")
        yield Lines(self._scene.glyphs, id="body")
        yield Lines(self._scene.glyphs, id="footer")

    def on_mount(self) -> None:
        self._loop_to_end = asyncio.get_running_loop()
        if self._early_end is not None:
            self.exit(self._early_end)
        self.app_resume_signal.subscribe(self, lambda _: self._draw_all_again())
        self.pump.start()

    def end(self, code: int) -> None:
        """End with this exit code; from any thread, whatever the app is doing."""
        self._early_end = code
        if self._loop_to_end is not None:
            with suppress(RuntimeError):  # it has ended already
                self._loop_to_end.call_soon_threadsafe(self.exit, code)

    def on_lines_resized(self) -> None:
        self._draw()

    def on_monitor_app_changed(self) -> None:
        """Draw now, or when it is time again."""
        wait_s = self._drawn_s + _DRAW_S - time.monotonic()
        if wait_s > 0:
            self.set_timer(wait_s, self._draw)
        else:
            self._draw()

    def action_end(self, code: int) -> None:
        self.exit(code)

    def action_pause(self) -> None:
        """A replay stops. The machine goes on, and is recorded, but the picture stands."""
        is_paused = not self._playing.is_paused
        self._playing = replace(self._playing, is_paused=is_paused)
        with self.pump.story() as story:
            self._frozen = story.standing() if is_paused else None
        if self._playing.speed is not None:
            self.pump.hold(is_paused)
        self._draw()

    def action_help(self, is_shown: bool | None = None) -> None:
        self._is_help = not self._is_help if is_shown is None else is_shown
        self._scroll(-self._body.first)

    def action_engine(self, step: int) -> None:
        """Choose the next engine; where there are not several, scroll by a line."""
        with self.pump.story() as story:
            shown = self._frozen or story
            engines = shown.state.engines if shown.state else ()
        if len(engines) > 1:
            at = index_of(engines, self._chosen)
            self._chosen = engines[(at + step) % len(engines)].name
            self._draw()
        else:
            self._scroll(step)

    def action_page(self, pages: int) -> None:
        self._scroll(pages * max(1, self._body.size.height - 1))

    @property
    def _body(self) -> Lines:
        return self.query_one("#body", Lines)

    def _draw_all_again(self) -> None:
        """The shell has written where the view was."""
        for lines in self.query(Lines):
            lines.refresh()

    def _scroll(self, lines: int) -> None:
        self._body.scroll_by(lines)
        self._draw()

    def _notify(self) -> None:
        """Called in the pump's thread; one message is under way at most."""
        if not self._is_notified:
            self._is_notified = True
            with suppress(RuntimeError):  # the loop has just been closed
                self.post_message(self.Changed())

    def _draw(self) -> None:
        self._is_notified = False
        try:
            if self.pump.error is not None:
                raise self.pump.error
            self._show_all()
        except Exception as error:
            self.error = error
            self.exit(1)

    def _show_all(self) -> None:
        body = self._body
        width, height = body.size
        if not width or not height:  # not laid out yet, or a window without room
            return
        self._drawn_s = time.monotonic()
        with self.pump.story() as story:
            shown = self._frozen or story
            playing = replace(self._playing, is_over=self.pump.is_over)
            lines = self._lines(shown, width, height)
            engines = len(shown.state.engines) if shown.state else 0
            head = header(self._scene.subject, shown.state, playing, width)
        body.show(lines)
        self.query_one("#header", Lines).show([head])
        foot = footer(playing, engines, body.hidden_lines, width)
        self.query_one("#footer", Lines).show([foot])

    def _lines(self, story: Story, width: int, height: int) -> list[Line]:
        if self._is_help:
            return [fitted(line, width) for line in help_lines(width)]
        return picture(self._scene, story, self._chosen, width, height)
