"""A chat: the model, the conversation so far, and what a message does to both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from orin_llm.cli.chat.saved import load_beside, require_replaceable, save_beside, take_up
from orin_llm.cli.progress import load_engine
from orin_llm.cli.render import AnswerWriter, statistics
from orin_llm.cli.template import chat_template
from orin_llm.closeable import Closeable
from orin_llm.engine import Completion, Engine, Request, Result, SamplingParams
from orin_llm.engine.config import MAX_SEED
from orin_llm.gguf.header import read_header
from orin_llm.models.store import resolve
from orin_llm.text.conversation import Conversation
from orin_llm.text.conversation_file import read_messages
from orin_llm.text.template import ChatTemplate

if TYPE_CHECKING:
    from orin_llm.cli.answer_options import AnswerOptions
    from orin_llm.cli.chat.screen import Screen
    from orin_llm.cli.chat.settings import Settings
    from orin_llm.cli.options import EngineOptions

ROOM_FOR_ANSWER = 512  # tokens kept free, in a context that has four times as many


class Chat(Closeable):
    """A conversation with one model at a time. A context manager: leaving it frees the model.

    Attributes:
        settings: what the next message is asked with; commands replace it.
        screen: where commands show what they have to say.
        encoding: of the files that are read into the chat, None for UTF-8.
    """

    def __init__(
        self, options: EngineOptions, settings: Settings, screen: Screen, answer: AnswerOptions
    ) -> None:
        self.settings = settings
        self.screen = screen
        self.encoding = answer.encoding
        self._quiet = answer.quiet
        self._options = options
        self._engine = self._load()
        self._template = chat_template(self._engine)
        self._conversation = Conversation(self._engine, self._template, system=answer.system)
        self._attached: list[str] = []
        self._file: Path | None = None  # where this conversation was saved to or loaded from
        self._computed: tuple[int, ...] = ()  # tokens of the conversation that were computed
        self._results: list[Result] = []
        self._regenerated = 0

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()

    # Messages

    def attach(self, text: str) -> None:
        """Keep a text to go before the next message."""
        self._attached.append(text)

    def say(self, text: str) -> None:
        """Send a message and write the answer. Without an answer the message is taken back."""
        attached, self._attached = self._attached, []
        self._regenerated = 0
        self._conversation.add_user("\n\n".join([*attached, text]))
        self._answer(self.settings.sampling, self._conversation.undo)

    def regenerate(self) -> None:
        """Answer the last message anew; a fixed seed is counted up, to draw another answer."""
        before = self._conversation.messages
        self._conversation.drop_answer()

        def restore() -> None:
            for message in before[len(self._conversation.messages) :]:
                self._conversation.add(message)

        self._regenerated += 1
        sampling = self.settings.sampling
        if sampling.seed is not None:
            seed = (sampling.seed + self._regenerated) % (MAX_SEED + 1)
            sampling = replace(sampling, seed=seed)
        self._answer(sampling, restore)

    def _answer(self, sampling: SamplingParams, take_back: Callable[[], object]) -> None:
        completion: Completion | None = None
        try:
            request = self._request(sampling)
            completion = self._engine.complete(request)
            AnswerWriter().stream(completion)
        except BaseException as error:
            if completion is None or not completion.result.token_ids:
                take_back()
                if isinstance(error, KeyboardInterrupt):
                    self.screen.notice("nothing was answered: the message is taken back")
            else:
                self._keep(request, completion.result)
            raise
        self._keep(request, completion.result)

    def _request(self, sampling: SamplingParams) -> Request:
        n_ctx, limit = self._engine.n_ctx, self.settings.max_tokens
        reserve = min(ROOM_FOR_ANSWER if limit is None else limit, n_ctx // 4)
        prompt = self._conversation.prompt(n_ctx, reserve)
        if prompt.dropped_turns:
            turns = "turn" if prompt.dropped_turns == 1 else f"{prompt.dropped_turns} turns"
            self.screen.notice(f"the context is full: dropped the oldest {turns}")
        return Request(prompt.tokens, sampling, limit, self.settings.stop + self._template.stop)

    def _keep(self, request: Request, result: Result) -> None:
        """What was answered is part of the conversation, however it ended."""
        self._conversation.add_answer(result.text, result.token_ids)
        self._computed = (*request.prompt_tokens, *result.token_ids)
        self._results.append(result)
        self.screen.figures(result)
        if result.prompt_tokens + result.completion_tokens >= self._engine.n_ctx:
            self.screen.notice("the context is full: the answer ends here")

    # The conversation

    @property
    def turns(self) -> int:
        return self._conversation.n_turns

    @property
    def system(self) -> str | None:
        return self._conversation.system

    def set_system(self, text: str | None) -> None:
        self._conversation.set_system(text or None)
        self._computed = ()

    def clear(self) -> None:
        """Forget the turns and what was attached; the system prompt stays."""
        self._conversation.clear()
        self._attached = []
        self._file = None
        self._computed = ()

    def save(self, path: Path, *, replace_other: bool = False) -> str:
        """Write the conversation, over what is there if that is this one or `replace_other`.

        Another kind of file is never replaced. Returns what to say about the state beside it.
        """
        is_own = path.resolve() == self._file
        require_replaceable(path, replace_other=replace_other or is_own)
        self._conversation.save(path)
        self._file = path.resolve()
        return save_beside(self._engine, self._computed, path, is_own=is_own)

    def load(self, path: Path) -> str:
        """Take up a conversation and its state. Returns what to say about the state."""
        messages = read_messages(path)
        self._computed, told = load_beside(self._engine, path)
        conversation = Conversation(self._engine, self._template)
        self._conversation = take_up(conversation, messages, self._computed)
        self._attached = []
        self._file = path.resolve()
        return told if self.turns else ""

    # The model

    @property
    def model_name(self) -> str:
        return self._options.model

    @property
    def template(self) -> ChatTemplate:
        return self._template

    def switch_model(self, name: str) -> None:
        """Go on with another model; the one there is stays if that cannot be loaded.

        The two are not in memory together: what can be wrong with the new file is checked before
        the old model is freed, and what fails after that loads the old one again.
        """
        old = self._options
        self._options = replace(old, model=name)
        try:
            read_header(resolve(name))
        except BaseException:
            self._options = old
            raise
        self._engine.close()
        try:
            self._take_up()
        except BaseException:
            self._options = old
            self._take_up()
            raise

    def _take_up(self) -> None:
        """Load the model and give it the conversation so far."""
        self._engine = self._load()
        self._template = chat_template(self._engine)
        messages = self._conversation.messages
        self._conversation = Conversation(self._engine, self._template)
        take_up(self._conversation, messages, ())
        self._computed = ()

    def _load(self) -> Engine:
        path = resolve(self._options.model)
        return load_engine(path, self._options.config(quiet=self._quiet), quiet=self._quiet)

    # Facts

    def info(self) -> list[tuple[str, str]]:
        """The model and how it runs, as names and values."""
        engine, metadata = self._engine, self._engine.header.metadata
        used = 0
        if self._results and self.turns:
            last = self._results[-1]
            used = last.prompt_tokens + last.completion_tokens
        hooks = engine.backend["hooks"]
        return [
            ("model", self.model_name),
            ("file", str(engine.model_path)),
            ("name", str(metadata.get("general.name", "?"))),
            ("architecture", str(metadata.get("general.architecture", "?"))),
            ("context", f"{used} of {engine.n_ctx} tokens"),
            ("turns", str(self.turns)),
            ("threads", str(engine.threads)),
            ("device", str(engine.backend["device"])),
            (
                "hooks",
                ", ".join(f"{k} {v}" for k, v in hooks.items()) if isinstance(hooks, dict) else "",
            ),
        ]

    def statistics(self) -> list[tuple[str, str]]:
        """Figures of the last answer and sums over the chat."""
        if not self._results:
            return [("answers", "none yet")]
        results = self._results
        computed = sum(result.prompt_tokens - result.cached_tokens for result in results)
        return [
            ("last answer", "\n".join(statistics(results[-1]))),
            ("answers", str(len(results))),
            (
                "prompt tokens",
                f"{computed} computed, {sum(r.cached_tokens for r in results)} cached",
            ),
            ("answer tokens", str(sum(result.completion_tokens for result in results))),
        ]
