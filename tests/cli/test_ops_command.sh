# test_ops_command.sh - kiln ops: the list, one by name, JSON, a misspelt name; docs/ops.md is what the table says, and every member of the header that
# records an op is in it.
. "$KILN_ROOT/tests/cli/head.sh"
cd "$work" || exit 2
verdict() { if [ "$2" -eq 0 ]; then ok "$1"; else bad "$1" "$(head -c 600 run.txt)"; fi; }
"$kiln" ops >run.txt && grep -q '^  attention  *q \[N,Tq,H D\]' run.txt && grep -q '^products$' run.txt; verdict list $?
"$kiln" ops map rope >run.txt && grep -q '^map (elements)' run.txt && grep -q 'kernels   cpu' run.txt && grep -q 'a cos - b sin' run.txt; verdict two_by_name $?
"$kiln" ops --json >run.txt && python3 -c '
import json
ops = {o["name"]: o for o in json.load(open("run.txt"))}
assert len(ops) > 35 and "cpu" in ops["attention"]["kernels"] and ops["topk"]["group"] == "rows"'; verdict json $?
"$kiln" ops tpok >run.txt 2>&1; [ $? -eq 2 ] && grep -q "did you mean 'topk'?" run.txt; verdict a_misspelt_name $?
emu="$KILN_ROOT/$KILN_BUILD/emu/kiln-cuda-emu.so"
if [ -e "$emu" ]; then
    KILN_CUDA_LIBRARY=$emu "$kiln" ops --markdown >run.txt 2>/dev/null && cmp -s run.txt "$KILN_ROOT/docs/ops.md" || { diff run.txt "$KILN_ROOT/docs/ops.md" | head -n 5 >said.txt; mv said.txt run.txt; echo "run scripts/ops-docs" >>run.txt; false; }
    verdict the_page_is_the_table $?
else
    echo "skip the_page_is_the_table: no emulation in this build"
fi
python3 - "$KILN_ROOT/include/kiln/ops.h" "$KILN_ROOT/docs/ops.md" >run.txt <<'P'
import re, sys
header, page = open(sys.argv[1]).read(), open(sys.argv[2]).read()
table = header[header.index("gemm, convolution, attention"):header.index("plan and run")] + header[header.index("---- more ops"):]
records = set(re.findall(r"kiln_t \(\*(\w+)\)\(kiln_program \*, (?!const char \*name, uint32_t dtype|const int32_t)", table)) - {"cast", "expand", "state"}
missing = sorted(n for n in records if f"| `{n}` |" not in page)
print("not on the page:", missing)
sys.exit(bool(missing) or len(records) < 35)
P
verdict every_recorder_is_on_the_page $?
exit $status
