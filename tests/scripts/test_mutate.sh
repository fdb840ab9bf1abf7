# test_mutate.sh - scripts/mutate changes code and nothing else, finds a place again after lines have moved, and draws the same places for a seed;
# scripts/coverage_data.py adds gcov's counts as gcov itself would.
. "$KILN_ROOT/tests/cli/head.sh"
export PYTHONDONTWRITEBYTECODE=1
cat >"$work/load.py" <<'P'
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
sys.path.insert(0, "scripts")
loader = SourceFileLoader("mutate", "scripts/mutate")
mutate = module_from_spec(spec_from_loader("mutate", loader))
loader.exec_module(mutate)
P
python() { PYTHONPATH="$work" python3 -c "$1" >"$work/log" 2>&1; }

cat >"$work/sample.c" <<'C'
#define LIMIT (1 + 2) /* 3 == 4 */
// a < b
static int f(int a, int b)
{
    const char *s = "a == b && 1", c = '1';
    assert(a < b && f(a + 1, b));
    if (a == b) return 7;
    if (!s || a <= 0x10 || b > 2.5) continue;
    return a - b;
}
C
python 'from load import mutate
text = open("'"$work"'/sample.c").read()
found = [(text.count("\n", 0, at) + 1, text[at:at + n], new) for at, n, new in mutate.changes("x.c", text)]
assert found == [(7, "==", "!="), (7, "return 7;", "{}"), (8, "!", ""), (8, "||", "&&"), (8, "<=", "<"), (8, "||", "&&"), (8, ">", ">="),
                 (8, "continue;", "{}"), (9, "-", "+")], found'
verdict changes_code_alone $?
python 'from load import mutate
text = open("'"$work"'/sample.c").read()
place = {"line": 7, "column": 10, "old": "==", "new": "!=", "text": "if (a == b) return 7;"}
at, line = mutate.place_in(text, place)
assert (text[at:at + 2], line) == ("==", 7)
at, line = mutate.place_in("\n\n\n" + text, place)
assert (("\n\n\n" + text)[at:at + 2], line) == ("==", 10)
assert mutate.place_in(text.replace("a == b)", "a != b)"), place) is None'
verdict finds_a_place_again $?
if git -C . rev-parse HEAD >/dev/null 2>&1; then
    python 'from load import mutate
mutate.sources = lambda commit: ["engine/base/arena.c", "engine/base/str.c"]
a, n = mutate.pick(7, 20, "HEAD")
b, _ = mutate.pick(7, 30, "HEAD")
c, _ = mutate.pick(8, 20, "HEAD")
assert len(a) == 20 and n > 100 and a == b[:20] and a != c
assert all(open(q["file"]) for q in a)'
    verdict a_seed_draws_the_same_places $?
else echo "skip a_seed_draws_the_same_places: no git checkout"; fi

# ---- results, and which tests come first
python 'from load import mutate
path = "'"$work"'/results.tsv"
row = {"index": 7, "place": "a.c:3", "change": "! -> ", "verdict": "killed", "test": "tests/a/test_b", "ran": "1 of 3", "seconds": 2, "remark": ""}
mutate.save_results(path, "d421d00ee7a0", 21, {7: row, 3: dict(row, index=3, verdict="equivalent", remark="a reason")})
commit, seed, rows = mutate.load_results(path)
assert (commit, seed, sorted(rows)) == ("d421d00ee7", 21, [3, 7]), (commit, seed, rows)
assert rows[7]["test"] == "tests/a/test_b" and rows[7]["remark"] == "" and rows[3]["remark"] == "a reason"
mutate.save_results(path, commit, seed, rows)
assert mutate.load_results(path) == (commit, seed, rows)
assert mutate.load_results("/nowhere") == ("", None, {})'
verdict results_come_back $?
python 'from load import mutate
mutate.TREE = mutate.cd.ROOT
words = mutate.Words()
for path, line, test in [("engine/base/str.c", 100, "tests/base/"), ("plugins/tokenizer/pattern.c", 150, "tests/tokenizer/test_pattern"), ("engine/run/sheet.c", 150, "tests/run/test_sheet")]:
    tests, counted = words.tests(path, line)
    first = words.ordered(tests, path)[0]
    assert not counted and first.startswith(test), (path, first)'
verdict the_nearest_test_comes_first $?

# ---- counts: two runs of a program, added here and by gcov's own merging
if command -v gcov >/dev/null && command -v gcc >/dev/null; then
    cat >"$work/count.c" <<'C'
int main(int n, char **v)
{
    int s = 0;
    for (int i = 0; i < n * 3; i++) s += i & 1 ? 2 : v[0][0];
    return s == 1;
}
C
    (cd "$work" && gcc -O0 --coverage -o count count.c 2>log && for k in a b both; do mkdir -p $k; done &&
        GCOV_PREFIX=$work/a GCOV_PREFIX_STRIP=99 ./count; GCOV_PREFIX=$work/b GCOV_PREFIX_STRIP=99 ./count x y
        GCOV_PREFIX=$work/both GCOV_PREFIX_STRIP=99 ./count; GCOV_PREFIX=$work/both GCOV_PREFIX_STRIP=99 ./count x y)
    python 'import glob, sys
sys.path.insert(0, "scripts")
import coverage_data as cd
a, b, both = (cd.Counts(open(glob.glob("'"$work"'/" + k + "/*.gcda")[0], "rb").read()) for k in ("a", "b", "both"))
assert a.executed() and a.functions != both.functions
a.add(b)
assert a.functions == both.functions
again = cd.Counts(a.data())
assert again.functions == a.functions and again.stamp == a.stamp
try:
    cd.Counts(b"no counts at all")
    sys.exit("accepted")
except ValueError:
    pass'
    verdict counts_are_added $?
else echo "skip counts_are_added: no gcov here"; fi
exit $status
