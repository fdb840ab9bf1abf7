# test_reference.sh - docs/reference is what scripts/reference-docs makes of the headers, every public name and every line of a declaration is on its
# header's page, and docs/abi.md names each addition with the minor that brought it.
cd "$KILN_ROOT" || exit 2
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v python3 >/dev/null || { echo "skip reference: python3 is missing"; exit 0; }
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else head -n 12 "$work/said.txt"; echo "FAIL $1"; status=1; fi
}
scripts/reference-docs -o "$work/made" >"$work/said.txt" 2>&1 && diff -r docs/reference "$work/made" >"$work/said.txt" || { echo "run scripts/reference-docs" >>"$work/said.txt"; false; }; verdict the_pages_are_what_the_headers_say $?
# A header that changes, or comes, changes the pages.
mkdir -p "$work/tree/include" "$work/tree/scripts" && cp -r include/kiln "$work/tree/include/" && cp scripts/reference-docs "$work/tree/scripts/" &&
    sed -i 's/is_one_line/&/; s/uint32_t rank_min, rank_max; \/\* tensors/uint32_t another_member; &/' "$work/tree/include/kiln/plugin.h" &&
    printf '/* fresh.h - what is new. */\n#ifndef KILN_FRESH_H\n#define KILN_FRESH_H\n/* Says it. */\nint kiln_fresh(void);\n#endif\n' >"$work/tree/include/kiln/fresh.h"
"$work/tree/scripts/reference-docs" >"$work/said.txt" 2>&1 && grep -q another_member "$work/tree/docs/reference/plugin.md" && grep -q '### `kiln_fresh`' "$work/tree/docs/reference/fresh.md" && grep -q 'fresh.h' "$work/tree/docs/reference/README.md"; verdict a_changed_header_changes_its_page $?
python3 - >"$work/said.txt" 2>&1 <<'P'
import glob, pathlib, re, sys
missing = []
for header in sorted(glob.glob("include/kiln/*.h")):
    page = pathlib.Path("docs/reference", pathlib.Path(header).stem + ".md").read_text()
    code = "\n".join(re.findall(r"```c\n(.*?)```", page, flags=re.S))
    bare = re.sub(r"/\*.*?\*/", "", pathlib.Path(header).read_text(), flags=re.S)
    for line in bare.split("\n"):
        if not line.strip() or line.startswith("#") or line.strip() in ("}", 'extern "C" {'): continue
        if not all(word in code for word in re.findall(r"\w+", line)): missing.append(f"{header}: {line.strip()}")
    missing += [f"{header}: {name}" for name in re.findall(r"^#define (\w+)", bare, flags=re.M) if name not in code and not name.endswith("_H")]
print("\n".join(missing))
sys.exit(bool(missing))
P
verdict every_declaration_is_on_its_page $?

# kiln.hpp: its classes, what they offer, and nothing of how they do it.
python3 - >"$work/said.txt" 2>&1 <<'P'
import re, sys
page, code = open("docs/reference/kiln.md").read(), open("include/kiln/kiln.hpp").read()
shown = "\n".join(re.findall(r"```c\n(.*?)```", page, flags=re.S))
public = re.sub(r"\n  private:\n.*?(?=^};)|^namespace detail.*?^} // namespace detail", "", code[code.index("namespace kiln"):], flags=re.M | re.S)
wanted = set(re.findall(r"^(?:template <.*> )?(?:class|struct) (\w+)", public, flags=re.M)) | set(re.findall(r"^    (?:template <.*> )?(?:\w[\w:<>, ]*[ &*]+)(\w+)\(", public, flags=re.M)) - {"for_", "static_assert"}
missing = [w for w in sorted(wanted) if not re.search(rf"\b{w}\b", shown)]
inner = [w for w in ("private:", "defaults_", "api()", "static_assert", "detail::is") if w in re.sub(r"#define.*", "", shown, flags=re.S)]
print(missing, inner, len(wanted))
sys.exit(bool(missing or inner) or len(wanted) < 35)
P
verdict the_wrapper_is_on_its_page $?

# ---- docs/abi.md
minor=$(sed -n 's/^#define KILN_ABI_NEWEST //p' include/kiln/plugin.h)
grep -q "is at version 1\.$minor\b" docs/abi.md; verdict the_newest_minor_stands_there $?
# What the headers mark as newer than 1.0 ("1.1: ..." or "1.1 [run] ..." in a comment): the declaration behind it.
python3 - >"$work/said.txt" 2>&1 <<'P'
import glob, re, sys
page, missing, n = open("docs/abi.md").read(), [], 0
for header in sorted(glob.glob("include/kiln/*.h")):
    text = open(header).read()
    for at in re.finditer(r"(?<![\w.])1\.([1-9]\d*)(?=[: ])", text):
        begin, end = text.rfind("/*", 0, at.start()), text.find("*/", at.start())
        if begin < 0 or text.rfind("*/", begin, at.start()) >= 0: continue
        line = text[text.rfind("\n", 0, begin) + 1:begin] or text[end + 2:text.find(";", end)]
        if not line.strip(): line = text[end + 2:text.find(";", end)]
        name = re.search(r"\(\*(\w+)\)|(\w+)(?:\[\w*\])?\s*;?\s*$", line.strip().rstrip(";"))
        if not name or "first release" in text[begin:end]: continue
        n += 1
        word = name[1] or name[2]
        if not re.search(rf"^\| 1\.{at[1]} \|.*`[^`]*\b{word}\b[^`]*`", page, flags=re.M): missing.append(f"{header}: 1.{at[1]} {word}")
print("\n".join(missing) or f"{n} additions", file=sys.stdout)
sys.exit(bool(missing) or n == 0)
P
verdict every_addition_stands_there_with_its_minor $?
sed 's/^/# /' "$work/said.txt"
exit $status
