"""Millions of offsets and keys, stored as bytes and not as objects."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator

_BITS = 1 << 16
_BYTES = _BITS // 8
_DIGESTS = 1 << 12


class OffsetSet:
    """Offsets of one partition, one bit each, in blocks that are allocated on demand."""

    def __init__(self) -> None:
        self._blocks: dict[int, bytearray] = {}

    def add(self, offset: int) -> bool:
        """Add an offset; False if it was there already."""
        number, bit = divmod(offset, _BITS)
        block = self._blocks.get(number)
        if block is None:
            block = self._blocks[number] = bytearray(_BYTES)
        byte, mask = bit >> 3, 1 << (bit & 7)
        new = not block[byte] & mask
        block[byte] |= mask
        return new

    def __contains__(self, offset: int) -> bool:
        number, bit = divmod(offset, _BITS)
        block = self._blocks.get(number)
        return block is not None and bool(block[bit >> 3] & 1 << (bit & 7))

    def __len__(self) -> int:
        return sum(_number(block).bit_count() for block in self._blocks.values())

    def __and__(self, other: OffsetSet) -> OffsetSet:
        return self._from_bits({n: self._bits(n) & other._bits(n) for n in self._blocks})

    def __or__(self, other: OffsetSet) -> OffsetSet:
        numbers = self._blocks.keys() | other._blocks.keys()
        return self._from_bits({n: self._bits(n) | other._bits(n) for n in numbers})

    def __sub__(self, other: OffsetSet) -> OffsetSet:
        return self._from_bits({n: self._bits(n) & ~other._bits(n) for n in self._blocks})

    def between(self, first: int, end: int) -> OffsetSet:
        """Offsets from `first` to `end`, `end` excluded."""
        blocks = {}
        for number in self._blocks:
            low = min(max(first - number * _BITS, 0), _BITS)
            high = min(max(end - number * _BITS, low), _BITS)
            blocks[number] = self._bits(number) >> low << low & (1 << high) - 1
        return self._from_bits(blocks)

    def range_count(self) -> int:
        """Number of contiguous ranges."""
        count = 0
        for number in self._blocks:
            bits = self._bits(number)
            before = self._bits(number - 1) >> (_BITS - 1)
            count += (bits & ~(bits << 1 | before)).bit_count()
        return count

    def ranges(self) -> Iterator[tuple[int, int]]:
        """First and last offset of each range, in order."""
        pending: tuple[int, int] | None = None
        for first, last in self._ranges_within_blocks():
            if pending is not None and pending[1] + 1 == first:
                pending = (pending[0], last)
                continue
            if pending is not None:
                yield pending
            pending = (first, last)
        if pending is not None:
            yield pending

    def _ranges_within_blocks(self) -> Iterator[tuple[int, int]]:
        for number in sorted(self._blocks):
            bits, at = self._bits(number), number * _BITS
            while bits:
                zeros = (bits & -bits).bit_length() - 1
                bits >>= zeros
                ones = (~bits & (bits + 1)).bit_length() - 1
                bits >>= ones
                yield at + zeros, at + zeros + ones - 1
                at += zeros + ones

    def _bits(self, number: int) -> int:
        block = self._blocks.get(number)
        return 0 if block is None else _number(block)

    @staticmethod
    def _from_bits(blocks: dict[int, int]) -> OffsetSet:
        result = OffsetSet()
        result._blocks = {
            number: bytearray(bits.to_bytes(_BYTES, "little"))
            for number, bits in blocks.items()
            if bits
        }
        return result


class OffsetDigests:
    """A digest for each offset of one partition, four bytes each, in blocks as above."""

    def __init__(self) -> None:
        self._blocks: dict[int, array[int]] = {}

    def add(self, offset: int, digest: int) -> int | None:
        """Keep the first digest of an offset; returns it if there was one."""
        number, at = divmod(offset, _DIGESTS)
        block = self._blocks.get(number)
        if block is None:
            block = self._blocks[number] = array("I", bytes(4 * _DIGESTS))
        before = block[at]
        if before:
            return before
        block[at] = digest
        return None


class RangeSet:
    """Offsets of one partition, given as ranges: 16 bytes for each that does not touch another.

    Not a bit per offset: a header can claim a range of any length.
    """

    def __init__(self) -> None:
        self._firsts, self._lasts = array("q"), array("q")
        self._pending: list[tuple[int, int]] = []

    def add(self, first: int, last: int) -> None:
        """Add all offsets from `first` to `last`."""
        # The outputs of one task have the same range, or one that contains those before.
        if not (self._covers(first, last) or (first, last) in self._pending[-1:]):
            self._pending.append((first, last))
            # Merged after as many as there are: the time for all is that of a sort.
            if len(self._pending) > max(1024, len(self._firsts)):
                self._merge()

    def __contains__(self, offset: int) -> bool:
        self._merge()
        return self._covers(offset, offset)

    def __bool__(self) -> bool:
        return bool(self._firsts or self._pending)

    def _covers(self, first: int, last: int) -> bool:
        at = bisect_right(self._firsts, first) - 1
        return at >= 0 and self._lasts[at] >= last

    def _merge(self) -> None:
        if not self._pending:
            return
        known = zip(self._firsts, self._lasts, strict=True)
        merged = _merged(sorted([*known, *self._pending]))
        self._firsts = array("q", (first for first, _ in merged))
        self._lasts = array("q", (last for _, last in merged))
        self._pending = []


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in ranges:
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


class HashTable:
    """Numbers by 64-bit hashes: 24 to 96 bytes per entry, where a dict takes about 110.

    Keys with the same hash are one key: with 10 million keys the probability of one such pair
    is 3 in a million.
    """

    def __init__(self) -> None:
        self._clear(1024)

    def raise_to(self, key: int, value: int) -> int | None:
        """Keep the greater of the key's value and this one; returns the previous value."""
        slot = self._slot(key)
        if self._keys[slot]:
            before = self._values[slot]
            if value > before:
                self._values[slot] = value
            return before
        self._keys[slot] = key & _WORD or 1
        self._values[slot] = value
        self._used += 1
        if self._used * 3 > len(self._keys) * 2:
            self._grow()
        return None

    def _slot(self, key: int) -> int:
        key = key & _WORD or 1  # 0 marks an empty slot
        keys, mask = self._keys, len(self._keys) - 1
        slot = key & mask
        while keys[slot] and keys[slot] != key:
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        keys, values = self._keys, self._values
        self._clear(len(keys) * 4)
        for key, value in zip(keys, values, strict=True):
            if key:
                slot = self._slot(key)
                self._keys[slot], self._values[slot] = key, value
                self._used += 1

    def _clear(self, slots: int) -> None:
        self._keys = array("Q", bytes(8 * slots))
        self._values = array("q", bytes(8 * slots))
        self._used = 0


_WORD = 2**64 - 1


def _number(block: bytearray) -> int:
    return int.from_bytes(block, "little")
