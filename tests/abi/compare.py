# compare.py - what the present headers break of an archived contract, and what they add to it.
#   python3 tests/abi/compare.py ARCHIVED PRESENT       (descriptions, see describe.py)
# A line for each thing. Ends with 1 when something is broken, with 2 when something was only added and KILN_ABI_NEWEST is
# the archived one still.
import re
import sys


class Contract:
    def __init__(self, path):
        self.structs, self.enums, self.functions, self.constants = {}, {}, {}, {}
        block = None
        for line in open(path, encoding="utf-8"):
            line = line.rstrip("\n")
            head = re.match(r"(struct|enum) (.+?)(?:: (\d+) bytes)?$", line)
            if head and head[1] == "struct":
                block = Struct(head[2], int(head[3]))
                self.structs[head[2]] = block
            elif head:
                block = self.enums[head[2]] = {}
            elif line in ("functions", "constants"):
                block = getattr(self, line)
            elif line.startswith("    "):
                take_line(block, line.strip())

    def by_value(self):
        """Structs that lie inside another or go by value: they cannot grow. {name: where}"""
        found = {}
        for s in self.structs.values():
            for m in s.members:
                for name in re.findall(r"\bkiln_\w+\b(?! \*)(?! const)", m.declaration):
                    if name in self.structs and name != m.name:
                        found.setdefault(name, f"{s.name}.{m.name}")
        return found

    def strided(self):
        """Structs without a size of their own in arrays whose holder has their stride."""
        found = set()
        for s in self.structs.values():
            names = {m.name for m in s.members}
            for m in s.members:
                if m.name + "_stride" in names:
                    found.update(re.findall(r"kiln_\w+", m.declaration))
        return found


class Member:
    def __init__(self, offset, declaration):
        self.offset, self.declaration = int(offset), declaration
        pointer = re.match(r"[^(]*\(\*+(?:const )?(\w+)\)", declaration)
        self.name = pointer[1] if pointer else re.search(r"(\w+)(\[\d+\])*$", declaration)[1]


class Struct:
    def __init__(self, name, size):
        self.name, self.size, self.members = name, size, []


def take_line(block, line):
    if isinstance(block, Struct):
        block.members.append(Member(*line.split(": ", 1)))
    elif re.match(r"\w+ = ", line):
        name, value = line.split(" = ", 1)
        block[name] = value
    else:
        block[re.search(r"(kiln_\w+)\(", line)[1]] = line


def compare_members(old, new):
    """Faults of the members that were there."""
    names = {m.name: m for m in new.members}
    for i, was in enumerate(old.members):
        now = names.get(was.name)
        if now is None:
            yield (f"struct {old.name}: member '{was.name}' is gone or renamed; put it back: plugins that are built "
                   f"already have it at byte {was.offset}")
        elif now.declaration != was.declaration:
            yield (f"struct {old.name}: '{was.declaration}' has become '{now.declaration}'; put the old one back and add "
                   "the new one at the end, under another name")
        elif now.offset != was.offset:
            yield (f"struct {old.name}: member '{was.name}' has moved from byte {was.offset} to {now.offset}; move what "
                   "was put before it to the end of the struct")
        elif new.members[i].name != was.name:
            yield f"struct {old.name}: '{new.members[i].name}' stands where '{was.name}' was; new members go to the end"


def compare_growth(old, new, fixed, strided):
    """Faults of what was added to a struct."""
    added = [m for m in new.members if m.name not in {o.name for o in old.members}]
    if len(new.members) == len(old.members) and not added and new.size != old.size:
        yield f"struct {old.name}: {old.size} bytes have become {new.size}, with the same members"
    if added and old.name in fixed:
        yield (f"struct {old.name} has grown, and cannot: it goes by value ({fixed[old.name]}); make a new struct, and a "
               "new function or member that takes it")
    elif added and old.members[0].name not in ("size", "magic") and old.name not in strided and \
            not any(m.name == "size" and m.offset <= 4 for m in old.members):
        yield f"struct {old.name} has grown, and cannot: nothing says its size; make a new struct"
    for m in added:
        if m.offset < old.size and not m.name.startswith("reserved"):
            yield (f"struct {old.name}: new member '{m.name}' lies in what was padding, which older makers count as "
                   "theirs and leave unset; put a 'reserved' member there and the new one behind it")


def compare_structs(old, new):
    fixed, strided = new.by_value(), old.strided()
    for name, was in old.structs.items():
        now = new.structs.get(name)
        if now is None:
            yield f"struct {name} is gone or renamed; put it back"
            continue
        yield from compare_members(was, now)
        yield from compare_growth(was, now, fixed, strided)


def compare_new(old, new):
    """Faults of structs that were not there."""
    fixed, strided = new.by_value(), new.strided()
    for name in new.structs.keys() - old.structs.keys() - fixed.keys() - strided:
        first = new.structs[name].members[0].declaration if new.structs[name].members else ""
        if first != "uint32_t size":
            yield (f"struct {name} is new and does not begin with 'uint32_t size', nor has it a stride, so that it could "
                   "never grow; give it its size")


def compare_values(old, new):
    for name, was in old.enums.items():
        now = new.enums.get(name)
        if now is None:
            yield f"enum {name} is gone or renamed; put it back"
            continue
        for key, value in was.items():
            if key not in now:
                yield f"enum {name}: {key} is gone or renamed; put it back, as {value}"
            elif now[key] != value:
                yield f"enum {name}: {key} was {value} and has become {now[key]}; give it its number back"
        for key in now.keys() - was.keys():
            if now[key] in was.values():
                yield f"enum {name}: the new {key} has number {now[key]}, which is taken; give it a fresh one"


def compare_rest(old, new):
    for name, was in old.functions.items():
        now = new.functions.get(name)
        if now != was:
            yield f"function {name}: '{was}' {f'has become {now!r}' if now else 'is gone'}; put it back, add a new one"
    for name, was in old.constants.items():
        now = new.constants.get(name)
        if name in ("KILN_ABI_NEWEST", "KILN_ABI_MINOR") or now == was:
            continue
        if re.match(r"KILN_(MAX|GUIDER)_", name) and now and int(now, 0) > int(was, 0):
            continue  # limits may rise: they are part of no layout
        yield f"constant {name}: {was} {f'has become {now}' if now else 'is gone'}; built plugins have the old one"


def additions(old, new):
    for name, now in new.structs.items():
        was = old.structs.get(name)
        known = {m.name for m in was.members} if was else set()
        if was is None:
            yield f"struct {name}"
        elif len(now.members) > len(known):
            yield from (f"{name}.{m.name}" for m in now.members if m.name not in known)
    for name, now in new.enums.items():
        yield from (key for key in now if key not in old.enums.get(name, {}))
    yield from new.functions.keys() - old.functions.keys()
    yield from new.constants.keys() - old.constants.keys()


def main():
    old, new = Contract(sys.argv[1]), Contract(sys.argv[2])
    broken = [*compare_structs(old, new), *compare_new(old, new), *compare_values(old, new), *compare_rest(old, new)]
    for line in broken:
        print(f"broken: {line}")
    added = sorted(additions(old, new))
    for line in added:
        print(f"added: {line}")
    before, now = (int(c.constants["KILN_ABI_NEWEST"]) for c in (old, new))
    if broken:
        return 1
    if added and now == before:
        print(f"not counted: KILN_ABI_NEWEST is {now} still; raise it to {now + 1} and say at each addition that 1.{now + 1} brought it")
        return 2
    return 0


sys.exit(main())
