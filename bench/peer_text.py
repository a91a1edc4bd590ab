"""Tokens that no engine has seen: some or other, the same every time, different from any place on."""

from __future__ import annotations

# Ordinary tokens in every vocabulary there is here.
FIRST, COUNT = 1000, 30000


def text(n: int, start: int = 0) -> list[int]:
    return [FIRST + (((i + 1) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF) >> 33) % COUNT for i in range(start, start + n)]
