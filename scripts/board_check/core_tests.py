"""Files of tests that need no GPU and whose results could depend on the processor."""

CORE_TESTS = (
    "tests/test_engine_stock.py",
    "tests/test_golden_logits.py",
    "tests/test_paged_attention.py",
    "tests/test_rope_table.py",
    "tests/test_rope_session.py",
    "tests/test_sampling.py",
    "tests/test_pages.py",
    "tests/test_scheduler.py",
    "tests/test_kv_storage.py",
    "tests/test_stock_rounding.py",
    "tests/test_loader_not_finite.py",
    "tests/test_quantize_blocks.py",
)
