"""The product on a 64-bit Arm board, emulated: scripts/arm64_check.sh."""
