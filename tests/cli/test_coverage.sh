# test_coverage.sh - kiln nodes --coverage: what is counted, by category, as JSON.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"
unset KILN_PLUGIN_PATH
cd "$work" || exit 2
verdict() { if [ "$2" -eq 0 ]; then ok "$1"; else bad "$1" "$(head -c 600 run.txt)"; fi; }

"$kiln" nodes --coverage >run.txt && "$kiln" nodes --coverage --json >all.json && "$kiln" nodes --json >nodes.json && python3 -c '
import json, re
rows = json.load(open("all.json"))
known = {n["type"] for n in json.load(open("nodes.json"))}
assert len(rows) > 600 and all(r["here"] == (r["type"] in known) for r in rows)
here = sum(r["here"] for r in rows)
assert here > 170
last = [line for line in open("run.txt") if line.startswith("all ")][0]
assert re.fullmatch(rf"all +{here} of +{len(rows)}\n", last), last
groups = [line.split() for line in open("run.txt") if " of " in line and not line.startswith(("all ", "These"))]
assert sum(int(g[-1]) for g in groups) == len(rows) and sum(int(g[-3]) for g in groups) == here'; verdict counts $?
"$kiln" nodes --coverage model/loaders image/mask >run.txt && grep -q '^here  *LoraLoader  *model/loaders$' run.txt && grep -q '^missing  *AudioEncoderLoader ' run.txt &&
    ! grep -q KSampler run.txt && grep -q ' image/mask$' run.txt; verdict a_category $?
"$kiln" nodes --coverage --json image/mask >run.txt && python3 -c '
import json
assert {r["category"] for r in json.load(open("run.txt"))} == {"image/mask"}'; verdict a_category_as_json $?
"$kiln" nodes --coverage model/load >run.txt 2>&1; [ $? -eq 2 ] && grep -q "ComfyUI has no category 'model/load'" run.txt; verdict no_category $?
exit $status
