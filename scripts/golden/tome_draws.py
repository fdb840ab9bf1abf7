"""Which of its four tokens is the destination of each cell, as plugins/model_patch/token_merging.h says: SplitMix64 from the name's FNV-1a hash."""

BITS = 2**64 - 1


def draws(place, n):
    state = 14695981039346656037
    for byte in place.encode():
        state = (state ^ byte) * 1099511628211 & BITS
    for _ in range(n):
        state = state + 0x9E3779B97F4A7C15 & BITS
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & BITS
        z = (z ^ z >> 27) * 0x94D049BB133111EB & BITS
        yield (z ^ z >> 31) >> 62
