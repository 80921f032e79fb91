"""The native core: what cpp/bindings binds. The headers of cpp/engine and cpp/gguf say more."""

import os
from collections.abc import Callable, Sequence, Set
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

def build_info() -> dict[str, object]: ...

class GpuMemory(TypedDict):
    name: str
    free_bytes: int  # where it shares the system's memory: what that can make available
    total_bytes: int
    is_integrated: bool

def gpu_memory() -> GpuMemory | None: ...

class ModelParams:
    def __init__(
        self,
        *,
        gpu_layers: int = ...,
        use_mmap: bool = ...,
        vocab_only: bool = ...,
        check_tensors: bool = ...,
        table_on_gpu: tuple[str, int] | None = ...,  # type and columns of the table of tokens
    ) -> None: ...

class LoadReport(TypedDict):
    read_ms: float  # reading, checking and placing the tensors' data
    upload_ms: float  # waiting for a GPU that had not copied yet
    bytes: int
    direct_bytes: int  # of them read around the page cache

class TablePlace(TypedDict):
    tensor: str
    device: str  # "cpu", or the GPU's name
    is_repacked: bool

class TablePlaces(TypedDict):
    embedding: TablePlace | None
    output: TablePlace | None
    is_one_table: bool

def table_places(path: str | bytes, params: ModelParams) -> TablePlaces: ...

class Model:
    """Loaded weights and vocabulary. Raises ModelFileError when llama.cpp refuses the file, or its
    data cannot be read, or is not sound where that is checked."""

    def __init__(
        self, path: str | bytes, params: ModelParams, progress: Callable[[float], None] | None = ...
    ) -> None: ...
    @property
    def n_vocab(self) -> int: ...
    @property
    def device(self) -> str: ...
    @property
    def bos(self) -> int: ...
    @property
    def eos(self) -> int: ...
    @property
    def add_bos(self) -> bool: ...
    @property
    def load_report(self) -> LoadReport: ...
    def eog_tokens(self) -> list[int]: ...
    def special_tokens(self) -> dict[bytes, int]: ...
    def tokenize(self, text: bytes, *, add_special: bool, parse_special: bool) -> list[int]: ...
    def token_bytes(self, token: int, *, special: bool) -> bytes: ...
    def detokenize(self, tokens: list[int], *, special: bool) -> bytes: ...

class QuantizeParams:
    """What to quantize a model to: see cpp/quantize/quantize.h. Keeps the arrays."""

    def __init__(
        self,
        *,
        file_type: int,  # general.file_type
        only_copy: bool = ...,
        pure: bool = ...,
        allow_requantize: bool = ...,
        threads: int,
        buffer_bytes: int,
        output_type: str | None = ...,
        embedding_type: str | None = ...,
        type_patterns: list[tuple[str, str]] = ...,  # regular expression, type
        importance: dict[str, npt.NDArray[np.float32]] = ...,  # [n_matrices * n_inputs]
        text_metadata: dict[str, bytes] = ...,
        number_metadata: dict[str, int] = ...,
    ) -> None: ...

class QuantizedTensor:
    """What becomes of a tensor."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def new_type(self) -> str: ...
    @property
    def wanted_type(self) -> str: ...  # whose blocks its rows do not divide by, or ""
    @property
    def n_inputs(self) -> int: ...
    @property
    def n_matrices(self) -> int: ...
    @property
    def n_weights(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def new_bytes(self) -> int: ...

def plan_quantization(source: bytes, params: QuantizeParams) -> list[QuantizedTensor]:
    """What `quantize` would do. Raises UsageError, ModelFileError."""

def quantize(
    source: bytes, out: bytes, params: QuantizeParams, progress: Callable[[int], None]
) -> list[QuantizedTensor]:
    """Write `source` anew; see cpp/quantize/quantize.h for what must be checked before.

    `progress` gets the bytes of the source that are done; what it raises ends the work. Raises
    ModelFileError for the source, OrinError where `out` cannot be written.
    """

def needs_importance(type: str) -> bool: ...
def block_elements(type: str) -> int: ...  # of a weight's type, as in a tensor table
def matrix_types(
    *,
    architecture: str,
    n_layer: int,
    n_embd: int,
    n_ff: int,
    n_head: int,
    n_head_kv: int,
    head_dim: int,
    file_type: int,  # general.file_type
    matrices: list[tuple[str, int, int]],  # name, inputs, outputs
) -> list[str]:
    """The types that llama.cpp's quantizer gives a dense model's matrices, all of them."""

class SamplingParams:
    """What one row of logits is sampled with: see cpp/sampling/params.h."""

    def __init__(
        self,
        *,
        temperature: float,
        top_k: int,
        top_p: float,
        min_p: float,
        repeat_penalty: float,
        frequency_penalty: float,
        presence_penalty: float,
        order: str,  # orin or llama
        seed: int,
    ) -> None: ...

class SamplingRow:
    """One row of logits, with what changes them. Keeps its arrays; they are not copied."""

    def __init__(
        self,
        params: SamplingParams,
        logits: npt.NDArray[np.float32],  # [n_vocab]
        *,
        recent: npt.NDArray[np.int32] | list[int] = ...,
        bias: list[tuple[int, float]] = ...,
        mask: npt.NDArray[np.uint32] | None = ...,  # [(n_vocab + 31) // 32], bit set: allowed
    ) -> None: ...

class SamplingWorkspace:
    """Samples rows of at most n_vocab logits by the rule of docs/sampling.md, one at a time.

    Raises UsageError for a row that cannot be, OrinError where no token can be drawn.
    """

    def __init__(self, n_vocab: int) -> None: ...
    def sample(self, row: SamplingRow, *, position: int = ..., choice: int = ...) -> int: ...
    def candidates(self, row: SamplingRow) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]]:
        """The tokens that can be drawn, in ascending order, and their weights."""

    def top_logprobs(
        self, logits: npt.NDArray[np.float32], *, n: int, chosen: int
    ) -> list[tuple[int, float]]:
        """The n likeliest tokens with their log-probabilities, then the chosen one."""

class Sampler:
    """What one answer is drawn with, and the recent tokens that its penalties look at."""

    def __init__(
        self,
        params: SamplingParams,
        *,
        penalty_window: int,
        logit_bias: list[tuple[int, float]],
    ) -> None: ...
    def see(self, token: int) -> None: ...

class KernelChoice(TypedDict):
    """A choice that `EngineParams.kernels` may make, and its range."""

    name: str
    least: int
    most: int
    values: list[int]  # where only these are meant; else []

def kernel_choices() -> list[KernelChoice]: ...
def push_range(name: str) -> None: ...
def pop_range() -> None: ...

class EngineParams:
    def __init__(
        self,
        *,
        n_ctx: int,
        chunk_size: int,
        max_batch: int,
        threads: int,
        cpus: list[int] = ...,  # cores of the engine's own threads; none: all
        k_type: str,
        v_type: str,
        flash_attention: str = ...,  # auto, on or off
        hooks: Set[str],
        kernels: dict[str, int] = ...,
        page_size: int,
        kv_pages: int,
        prefix_cache: bool,
        prompt_outputs: int = ...,
    ) -> None: ...

DrawnToken = tuple[int, float, list[tuple[int, float]]]  # token, time_ms, log-probabilities

class CompletionReport(TypedDict):
    """Times of the monotonic clock in milliseconds, 0 where it has not come that far."""

    submitted_ms: float
    started_ms: float
    prefilled_ms: float
    ended_ms: float
    upload_ms: float
    sampling_ms: float
    cached_tokens: int
    preemptions: int
    ending: str  # "" while it goes on

class Completion:
    """A request under way. Letting it go cancels it."""

    def wait(self, n_seen: int, timeout_ms: float) -> bool: ...
    def tokens_from(self, first: int) -> list[DrawnToken]: ...
    def report(self) -> CompletionReport: ...
    def cancel(self) -> None: ...

class Runner:
    """The thread that computes completions. Its methods may be called from any thread."""

    def __init__(self, model: Model, params: EngineParams) -> None: ...
    @property
    def is_paged(self) -> bool: ...
    @property
    def chunk_size(self) -> int: ...  # at most the one asked for
    @property
    def refusal(self) -> str: ...  # why not, or ""
    @property
    def kv_memory(self) -> str: ...  # how the KV cache gets memory; "" where it is not paged
    @property
    def hooks(self) -> set[str]: ...  # that serve this model on this device
    @property
    def kernels(self) -> dict[str, int]: ...  # choices by name; {} where no GPU computes in pages
    def matrix_report(self) -> dict[str, Any]: ...  # n_served, n_stock, n_cublas, reason, nodes
    def rope_store_report(self) -> dict[str, Any]: ...  # n_layers, n_stock, reason
    def submit(
        self,
        prompt: list[int],
        *,
        max_tokens: int,
        sampler: Sampler,
        n_logprobs: int,
        ignore_eos: bool,
        priority: int,
        timeout_ms: float,
    ) -> Completion: ...
    def stats(self) -> dict[str, Any]: ...
    def steps_after(self, number: int) -> list[dict[str, Any]]: ...
    def forget(self) -> None: ...
    def set_budget(self, n_pages: int) -> bool: ...
    def kv_row_bytes(self) -> int: ...
    def read_kv(self, tokens: list[int], first: int, n: int) -> bytes: ...
    def write_kv(self, tokens: list[int], first: int, rows: bytes) -> int: ...
    def rope_counters(self) -> dict[str, int]: ...
    def upload_counters(self) -> dict[str, int]: ...
    def add_doorbell(self, fd: int) -> None: ...
    def remove_doorbell(self, fd: int) -> None: ...
    def close(self) -> None: ...

class TensorInfo:
    """A tensor of a model file; `offset` counts from the start of its file (see `part`)."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def type_id(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...  # fastest dimension first
    @property
    def offset(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def part(self) -> int: ...  # 0 unless the model is split

class GgufHeader:
    """The checked header of a model file. Without tensors it holds a vocabulary only.

    For a split model `tensors` and `file_bytes` are those of all `n_parts` files.
    """

    @property
    def version(self) -> int: ...
    @property
    def alignment(self) -> int: ...
    @property
    def data_offset(self) -> int: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def n_parts(self) -> int: ...
    def value(self, key: str) -> Any:
        """That of `metadata`, or None; without making the others, such as the vocabulary."""

    @property
    def metadata(self) -> dict[str, Any]: ...  # int, float, bool, str or a list of one of them
    @property
    def value_types(self) -> dict[str, int]: ...  # the format's numbers; of a list its items'
    @property
    def tensors(self) -> list[TensorInfo]: ...

def check_gguf(path: str | bytes | os.PathLike[str]) -> GgufHeader:
    """Reads and checks a model file's header, before llama.cpp sees the file.

    Raises ModelFileError for whatever llama.cpp would assert on or silently accept, and for files
    of other kinds. Reads no tensor data; takes memory in proportion to the header's real size.
    """

def check_gguf_container(path: str | bytes | os.PathLike[str]) -> GgufHeader:
    """The same for a GGUF file that need not be a model: what holds for any such file."""

class FilePiece:
    """Bytes of a file, as a read-only buffer, where its reader keeps them: good until the next."""

    @property
    def offset(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class FileReader:
    """All bytes of a file, in order, read ahead by threads, around the page cache where it can be.

    `tensors` of this file are validated on the way. Raises ModelFileError, with the offset, when
    the file cannot be read or has become shorter. Pieces may be taken from any thread.
    """

    def __init__(
        self,
        path: str | bytes | os.PathLike[str],
        tensors: Sequence[TensorInfo] = ...,
        *,
        threads: int = ...,
        piece_bytes: int = ...,  # at most this, unless a block is larger
    ) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def direct_bytes(self) -> int: ...  # read around the page cache so far
    @property
    def invalid(self) -> list[tuple[str, int]]:
        """Tensors with values or scales that are not finite, and where in the file the first block
        begins that has one; complete when the iteration has ended."""

    def close(self) -> None: ...  # ends the threads, and the iteration
    def __iter__(self) -> FileReader: ...
    def __next__(self) -> FilePiece: ...
    def __enter__(self) -> FileReader: ...
    def __exit__(self, *args: object) -> None: ...

class ReadAhead:
    """Has the system read files into the page cache, until it is closed: see cpp/loader."""

    def __init__(self, paths: Sequence[bytes]) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> ReadAhead: ...
    def __exit__(self, *args: object) -> None: ...

class ImatrixCollector:
    """Sums up what goes into each product with weights: see cpp/quality/imatrix_collector.h."""

    def __init__(self, model: Model, *, n_ctx: int, threads: int, process_output: bool) -> None: ...
    def add_window(self, tokens: list[int] | npt.NDArray[np.int32]) -> None:
        """Of at most n_ctx tokens. Its sums are added as a whole, or not at all: on Ctrl-C, too."""

    def put(
        self, name: bytes, sums: npt.NDArray[np.float32], counts: npt.NDArray[np.int64]
    ) -> None:
        """What is known of a tensor before: ([n_counts, n], [n_counts])."""

    def entries(self) -> dict[str, tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]]:
        """(sums [n_counts, n], counts [n_counts]) by the tensor's name."""

class PagedKv:
    """Which page of the KV pool holds which tokens of which sequence: see cpp/pages/paged_kv.h.

    Tokens are lists or int32 arrays of one dimension. Raises IndexError for a sequence that is not
    open, ValueError for a bad argument, RuntimeError for a call that the sequence's state forbids.
    """

    scratch_page: int

    def __init__(
        self,
        *,
        n_pages: int,  # the scratch page included
        page_size: int = ...,
        max_sequences: int = ...,
        max_tokens: int,
        window: int = ...,
        prefix_cache: bool = ...,
        hash_seed: int = ...,
        hash_bits: int = ...,
    ) -> None: ...
    def open(self) -> int: ...
    def close(self, sequence: int) -> None: ...
    def fork(self, sequence: int) -> int: ...
    def match_prefix(
        self, tokens: list[int] | npt.NDArray[np.int32]
    ) -> tuple[int, int]: ...  # tokens, idle pages
    def adopt_prefix(self, sequence: int, tokens: list[int] | npt.NDArray[np.int32]) -> int: ...
    def append(self, sequence: int, tokens: list[int] | npt.NDArray[np.int32]) -> bool: ...
    def pages_needed(self, sequence: int, n_tokens: int) -> int: ...
    def commit(self, sequence: int) -> None: ...
    def truncate(self, sequence: int, n_keep: int) -> int: ...
    def n_tokens(self, sequence: int) -> int: ...
    def n_committed(self, sequence: int) -> int: ...
    def block_table(self, sequence: int) -> npt.NDArray[np.int32]: ...
    def cell(self, sequence: int, position: int) -> int: ...
    def pending_copies(self) -> list[tuple[int, int, int]]: ...  # from, to, tokens
    def clear_copies(self) -> None: ...
    @property
    def page_size(self) -> int: ...
    @property
    def available_pages(self) -> int: ...
    @property
    def committed_pages(self) -> int: ...
    def set_budget(self, n_pages: int) -> bool: ...
    def drop_cached(self) -> None: ...
    def counters(self) -> dict[str, float]: ...  # of PageCounters, and hit_rate, fragmentation
    def check(self) -> None: ...

class StepBatch:
    """The rows of a step, valid until the next plan: see cpp/scheduler/step_batch.h."""

    @property
    def rows(self) -> npt.NDArray[np.void]: ...  # token, sequence, position, cell, wants_logits
    @property
    def n_decode_rows(self) -> int: ...
    @property
    def outputs(self) -> list[tuple[int, int]]: ...  # row, request
    @property
    def copies(self) -> list[tuple[int, int, int]]: ...  # from page, to page, tokens

class Scheduler:
    """Requests over a page pool: see cpp/scheduler/scheduler.h and planner.h.

    A step is plan(), the computation, then finish_step() or fail_step(). Raises ValueError for a
    bad argument, RuntimeError for a call out of turn.
    """

    def __init__(
        self,
        *,
        n_pages: int,  # the scratch page included
        page_size: int = ...,
        max_tokens: int,
        window: int = ...,
        prefix_cache: bool = ...,
        policy: str = ...,  # balanced, ttft or tpot
        chunk_size: int = ...,
        max_batch: int = ...,
        headroom_pages: int = ...,
        max_overtakes: int = ...,
        max_stall_steps: int = ...,
        tpot_divisor: int = ...,
        head_start_ms: float = ...,
    ) -> None: ...
    def submit(
        self,
        prompt: list[int],
        *,
        max_tokens: int,
        now_ms: float,
        priority: int = ...,
        deadline_ms: float | None = ...,
    ) -> int:
        """Returns the request's number. Raises PromptTooLong for one that can never fit."""

    def cancel(self, request: int) -> bool: ...
    def plan(self, now_ms: float) -> StepBatch: ...
    def last_plan(self) -> dict[str, Any]: ...  # the fields of StepPlan
    def describe_plan(self) -> str: ...
    def finish_step(self, sampled: list[tuple[int, bool]]) -> list[int]:
        """Takes a token for each output, and whether the request ends. Returns those that ended."""

    def fail_step(self) -> None: ...
    def tokens(self, request: int) -> list[int]: ...
    @property
    def n_requests(self) -> int: ...
    def counters(self) -> dict[str, int]: ...
    @property
    def kv(self) -> PagedKv: ...

class WindowRunner:
    """Logits of many positions of a window of tokens: see cpp/quality/window_runner.h."""

    def __init__(self, model: Model, params: EngineParams) -> None: ...
    def begin(
        self, tokens: list[int] | npt.NDArray[np.int32], *, first: int, one_by_one: bool
    ) -> None: ...
    def next_rows(self, n: int) -> npt.NDArray[np.float32]: ...  # [n or what is left, n_vocab]
    @property
    def is_paged(self) -> bool: ...
    @property
    def refusal(self) -> str: ...
    @property
    def kv_memory(self) -> str: ...
    @property
    def hooks(self) -> set[str]: ...
    @property
    def kernels(self) -> dict[str, int]: ...
    def matrix_report(self) -> dict[str, Any]: ...
    def rope_store_report(self) -> dict[str, Any]: ...

# Rows of logits are [n, n_vocab]; tokens, one for each, are those that followed in the text. See
# cpp/quality/logit_stats.h. OrinError where logits are not numbers.

def token_nlls(
    logits: npt.NDArray[np.float32], tokens: npt.NDArray[np.int32], *, n_threads: int
) -> npt.NDArray[np.float64]: ...

class RowDifferences(TypedDict):
    nll: npt.NDArray[np.float64]
    reference_nll: npt.NDArray[np.float64]
    kl_divergence: npt.NDArray[np.float64]
    max_logit: npt.NDArray[np.float64]
    same_top: npt.NDArray[np.bool_]

def compare_rows(
    reference: npt.NDArray[np.float32],
    logits: npt.NDArray[np.float32],
    tokens: npt.NDArray[np.int32],
    *,
    n_threads: int,
) -> RowDifferences: ...
def compare_encoded(
    reference: npt.NDArray[np.uint16],  # [n, encoded_words(n_vocab)]
    logits: npt.NDArray[np.float32],
    tokens: npt.NDArray[np.int32],
    *,
    n_threads: int,
) -> RowDifferences: ...
def encode_rows(
    logits: npt.NDArray[np.float32], *, n_threads: int
) -> npt.NDArray[np.uint16]: ...  # [n, encoded_words(n_vocab)]
def encoded_words(n_vocab: int) -> int: ...

class AttentionProbe:
    """One step of attention over pages by itself, on the CPU; the header says more."""

    def __init__(
        self,
        *,
        q: npt.NDArray[np.float32],  # [n_tokens, n_head, head_dim]
        k: npt.NDArray[np.uint8],  # [n_cells, bytes]
        v: npt.NDArray[np.uint8],
        k_type: str,
        v_type: str,
        n_head_kv: int,
        head_dim_v: int,
        page_size: int,
        block_tables: npt.NDArray[np.int32],  # [n_rows, max_pages]
        rows: npt.NDArray[np.int32],  # [n_tokens]
        positions: npt.NDArray[np.int32],
        scale: float,
        softcap: float = ...,
        window: int = ...,
        sinks: npt.NDArray[np.float32] | None = ...,
        max_threads: int = ...,
    ) -> None: ...
    def time(self, *, stock: bool, n_threads: int, n_nodes: int) -> float: ...
    def time_write(self, *, n_threads: int, n_repeats: int) -> float: ...
