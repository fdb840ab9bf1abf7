#!/usr/bin/env python3
"""Prints nodes/primitive/special_case.h: letters whose capitals are several letters, as Python (Unicode's SpecialCasing.txt) has them.

    python3 scripts/case_table.py >nodes/primitive/special_case.h
"""

HEAD = """/* special_case.h - letters whose capitals are several letters (Unicode's SpecialCasing.txt, without its conditions);
 * the capital that begins a word stands second. Sorted; written by scripts/case_table.py. */
#ifndef KILN_NODES_SPECIAL_CASE_H
#define KILN_NODES_SPECIAL_CASE_H

#include <stdint.h>

static const struct {
    int32_t code;
    const char *upper, *title;
} special_case[] = {
    /* clang-format off */"""
TAIL = """    /* clang-format on */
};

#endif"""


def literal(text):
    """An escape would go on over letters that are hexadecimal digits: each stands in quotes of its own."""
    return " ".join(f'"{c}"' if c.isascii() else '"' + "".join(f"\\x{b:02x}" for b in c.encode()) + '"' for c in text)


def main():
    print(HEAD)
    for code in range(0x110000):
        upper, title = chr(code).upper(), chr(code).title()
        if len(upper) > 1 or len(title) > 1:
            print(f"    {{0x{code:04x}, {literal(upper)}, {literal(title)}}},")
    print(TAIL)


if __name__ == "__main__":
    main()
