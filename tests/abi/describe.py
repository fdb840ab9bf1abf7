# describe.py - writes the binary contract of the public headers as text: each struct with its members, their places and
# types, the values of enums, the numbers and texts that plugins were compiled with, the functions of the library.
#   python3 tests/abi/describe.py INCLUDE_FOLDER [COMPILER] >contract.txt
# What a compiler says of the headers in its debug information, as readelf shows it. Types stop at a typedef of the C
# library's (int64_t), so that compilers agree.
import os
import re
import subprocess
import sys
import tempfile

# Header only: each plugin has a copy of its own, and nothing in them crosses to the engine or to another plugin.
HEADER_ONLY = {"standard_sampling.h", "config.h", "checkpoint.h", "resize.h", "bislerp.h", "kit.h"}


def compile_headers(include, compiler, folder):
    names = sorted(n for n in os.listdir(f"{include}/kiln") if n.endswith(".h") and n not in HEADER_ONLY)
    text = "".join(f'#include "kiln/{n}"\n' for n in names)
    engine = open(f"{include}/kiln/engine.h", encoding="utf-8").read()
    for name in re.findall(r"^KILN_EXPORT [^;(]*?(kiln_\w+)\(", engine, re.M):
        text += f"__typeof__({name}) *function_{name};\n"
    source = f"{folder}/contract.c"
    with open(source, "w", encoding="utf-8") as f:
        f.write(text)
    flags = ["-std=gnu11", "-I", include, "-D_GNU_SOURCE"]
    debug = ["-g", "-gdwarf-4", "-fno-eliminate-unused-debug-types", "-fPIC", "-shared"]
    subprocess.run([compiler, *flags, *debug, source, "-o", f"{folder}/contract.so"], check=True)
    macros = subprocess.run([compiler, *flags, "-dM", "-E", source], check=True, capture_output=True, text=True).stdout
    return f"{folder}/contract.so", macros


class Die:
    def __init__(self, tag, level):
        self.tag, self.level, self.at, self.children = tag, level, {}, []

    def number(self, key):
        return int(self.at[key].split()[0], 0)

    def name(self):
        return re.sub(r"^(\((in|alt|offset)[^)]*\): )+", "", self.at.get("name", ""))


def read_debug(path):
    """Entries by their offset; children hang on them."""
    shown = subprocess.run(["readelf", "--debug-dump=info", "--wide", path], check=True, capture_output=True, text=True,
                           env={**os.environ, "LC_ALL": "C"}).stdout
    dies, stack, die = {}, [], None
    for line in shown.splitlines():
        head = re.match(r"\s*<(\d+)><([0-9a-f]+)>: Abbrev Number: \d+ \(DW_TAG_(\w+)\)", line)
        attribute = re.match(r"\s*<[0-9a-f]+>\s+DW_AT_(\w+)\s*: (.*)", line)
        if head:
            die = dies[int(head[2], 16)] = Die(head[3], int(head[1]))
            del stack[die.level:]
            if stack:
                stack[-1].children.append(die)
            stack.append(die)
        elif attribute and die:
            die.at[attribute[1]] = re.sub(r"^\((\w+)\) ", "", attribute[2].strip())  # newer readelf says the form
    for die in dies.values():
        target = die.at.get("type")
        die.type = dies[int(re.search(r"<0x([0-9a-f]+)>", target)[1], 16)] if target else None
    return dies


def declare(die, inner):
    """`inner` declared as of this type, as C writes it."""
    if die is None:
        return f"void {inner}".rstrip()
    if die.tag == "pointer_type":
        far = die.type and die.type.tag in ("subroutine_type", "array_type")
        return declare(die.type, f"(*{inner})" if far else f"*{inner}")
    if die.tag == "const_type":
        if die.type and die.type.tag == "pointer_type":
            return declare(die.type, f"const {inner}".rstrip())
        return "const " + declare(die.type, inner)
    if die.tag == "array_type":
        ranges = [c for c in die.children if "upper_bound" in c.at or "count" in c.at]
        sizes = [c.number("count") if "count" in c.at else c.number("upper_bound") + 1 for c in ranges]
        return declare(die.type, inner + "".join(f"[{n}]" for n in sizes))
    if die.tag == "subroutine_type":
        parts = [declare(c.type, "") for c in die.children if c.tag == "formal_parameter"]
        parts += ["..." for c in die.children if c.tag == "unspecified_parameters"]
        return declare(die.type, f"{inner}({', '.join(parts) or 'void'})")
    return f"{die.name()} {inner}".rstrip()


def structs_and_enums(dies):
    """(name, entry) of each that is complete; a typedef names what has no tag."""
    found = {}
    for die in dies.values():
        named = die.type if die.tag == "typedef" else die
        if named is None or named.tag not in ("structure_type", "union_type", "enumeration_type"):
            continue
        if "declaration" not in named.at and die.name().startswith("kiln_"):
            found[die.name()] = named
    taken = {id(d) for d in found.values()}
    for die in dies.values():
        if die.tag == "enumeration_type" and id(die) not in taken and not die.name():
            first = die.children[0].name() if die.children else ""
            if first.startswith("KILN_"):
                found[f"with {first}"] = die
    return sorted(found.items())


def write_contract(dies, macros):
    for name, die in structs_and_enums(dies):
        if die.tag == "enumeration_type":
            print(f"\nenum {name}")
            for c in die.children:
                print(f"    {c.name()} = {c.number('const_value')}")
            continue
        print(f"\nstruct {name}: {die.number('byte_size')} bytes")
        for c in die.children:
            if c.tag == "member":
                print(f"    {c.number('data_member_location')}: {declare(c.type, c.name())}")
    print("\nfunctions")
    for die in dies.values():
        if die.tag == "variable" and die.name().startswith("function_"):
            print(f"    {declare(die.type.type, die.name()[len('function_'):])}")
    print("\nconstants")
    for name, value in sorted(re.findall(r"^#define (KILN_\w+) (.+)$", macros, re.M)):
        if re.fullmatch(r'-?(0x)?[0-9a-fA-F]+u?|"[^"]*"', value):
            print(f"    {name} = {value}")


def main():
    include, compiler = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "gcc"
    with tempfile.TemporaryDirectory() as folder:
        binary, macros = compile_headers(include, compiler, folder)
        dies = read_debug(binary)
    print("# The binary contract of include/kiln as of its last archiving. Made by scripts/abi-archive; not to be edited.")
    write_contract(dies, macros)


main()
