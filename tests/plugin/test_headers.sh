# test_headers.sh - the public headers are C11 to C23 and C++11 to C++23 without a warning of either compiler; kiln.hpp makes nodes that kiln check-plugin
# finds nothing wrong with, whose values let go of themselves, and whose exceptions become messages.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
export XDG_CACHE_HOME="$work/cache" XDG_DATA_HOME="$work/data"
unset KILN_PLUGIN_PATH
kiln="$KILN_ROOT/$KILN_BUILD/kiln" include="$KILN_ROOT/include"
cd "$work" || exit 2
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else head -n 12 said.txt; echo "FAIL $1"; status=1; fi
}
for h in "$include"/kiln/*.h; do echo "#include \"kiln/$(basename "$h")\""; done >all.c
cp all.c all.cpp && { cat all.c; echo '#include "kiln/kiln.hpp"'; } >hpp.cpp
warn="-Wall -Wextra -Wpedantic -Wshadow -Werror"
for cc in gcc clang; do
    command -v $cc >/dev/null && command -v ${cc/gcc/g}++ >/dev/null || command -v clang++ >/dev/null || { echo "skip $cc: there is none"; continue; }
    cxx=$([ $cc = gcc ] && echo g++ || echo clang++)
    for std in 11 17 2x; do $cc -std=c$std $warn -I"$include" -fsyntax-only all.c >said.txt 2>&1; verdict "c${std}_$cc" $?; done
    for std in 11 14 17 20 2b; do $cxx -std=c++$std $warn -I"$include" -fsyntax-only all.cpp >said.txt 2>&1; verdict "c++${std}_$cxx" $?; done
    for std in 17 20 2b; do
        $cxx -std=c++$std $warn -I"$include" -fsyntax-only hpp.cpp >said.txt 2>&1 && $cxx -std=c++$std $warn -O1 -fPIC -fvisibility=hidden -I"$include" -shared "$KILN_ROOT/tests/plugin/wrapped.cpp" -o wrapped.so >said.txt 2>&1
        verdict "kiln.hpp_c++${std}_$cxx" $?
    done
done
# A plugin in plain C++11 whose rows are filled member by member.
cat >plain.cpp <<'P'
#include "kiln/plugin.h"
#include "kiln/value.h"
static kiln_status run(const kiln_call *c)
{
    const kiln_value_api *v = static_cast<const kiln_value_api *>(c->host->ability(KILN_VALUE_ABILITY));
    c->out[0] = v->new_int(c->ctx, 11);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}
static kiln_port port()
{
    kiln_port p = kiln_port();
    return p.name = "INT", p.type = "INT", p.doc = "Eleven.", p;
}
static const kiln_port out[] = {port()};
static kiln_node row()
{
    kiln_node n = kiln_node();
    n.size = sizeof n, n.flags = KILN_NODE_PURE, n.devices = KILN_CPU, n.revision = 1, n.type = "PlainEleven", n.doc = "Eleven.";
    return n.out = out, n.n_out = 1, n.out_stride = sizeof *out, n.run = run, n;
}
static const kiln_node node = row();
#ifdef NODES
KILN_PLUGIN("org.example.plain", "1.0.0", "MIT", &node);
#else
static kiln_status open_plugin(const kiln_host *h) { return h && node.run ? KILN_OK : KILN_ERR_BUG; }
KILN_PLUGIN_WITHOUT_NODES("org.example.plain", "1.0.0", "MIT", open_plugin);
#endif
P
mkdir -p plain
for cxx in g++ clang++; do
    command -v $cxx >/dev/null || continue
    for std in 11 14 17 20; do
        $cxx -std=c++$std $warn -I"$include" -fsyntax-only plain.cpp >said.txt 2>&1 && $cxx -std=c++$std $warn -DNODES -I"$include" -fPIC -fvisibility=hidden -shared plain.cpp -o plain/plain.so >said.txt 2>&1 &&
            chmod go-w plain plain/plain.so && "$kiln" check-plugin plain/plain.so --sets 1 >said.txt 2>&1; verdict "a_plugin_in_c++${std}_$cxx" $?
    done
done
# kit.h's rows are in the order of their structs, which is what C++20 takes.
cat >rows.cpp <<'P'
#include "kiln/kit.h"
struct row_params { int64_t whole; double part; int32_t yes, way; uint64_t seed; };
static const kiln_choice ways[] = {{"left", "Left.", 0}, {"right", "Right.", 1}, {nullptr, nullptr, 0}};
static const kiln_param rows[] = {KIT_INT(row_params, whole, 1, 0, 9, "A number."), KIT_FLOAT(row_params, part, 0.5, 0, 1, 0.1, "A share."), KIT_BOOL(row_params, yes, 1, "Whether."),
                                  KIT_ENUM(row_params, way, ways, 1, "Which."), KIT_SEED(row_params, seed, "A seed.")};
static const kiln_port out[] = {{.name = "INT", .doc = "A number.", .type = "INT"}};
static kiln_status run(const kiln_call *c) { return (c->out[0] = kit_values(c)->new_int(c->ctx, 1)) ? KILN_OK : KILN_ERR_NOMEM; }
static const kiln_node node = {KIT_NODE("KitRows", "Rows", "tests", "Has rows of kit.h."), KILN_ARRAY(out, out), KIT_PARAMS(row_params, rows), .run = run};
KILN_PLUGIN("org.example.kit-rows", "1.0.0", "MIT", &node);
P
mkdir -p rows
for cxx in g++ clang++; do
    command -v $cxx >/dev/null || continue
    $cxx -std=c++20 $warn -Wno-missing-field-initializers -I"$include" -fPIC -fvisibility=hidden -shared rows.cpp -o rows/rows.so >said.txt 2>&1 && chmod go-w rows rows/rows.so && "$kiln" check-plugin rows/rows.so >said.txt 2>&1; verdict "kit.h_rows_$cxx" $?
done
[ -e wrapped.so ] || exit $status
chmod go-w wrapped.so

# What it says is what the node is made to do: no message with bad_alloc, and exceptions that are bugs.
"$kiln" check-plugin wrapped.so --sets 1 >said.txt 2>&1
thrown='  FAIL (message|bug) .* with what(: |=)(memory|standard|other)|and more of the kind'
for what in memory standard other; do grep -q "with what: $what" said.txt || echo "FAIL nothing of $what"; done
grep '  FAIL' said.txt | grep -vEq "$thrown"; [ $? -eq 1 ] && grep -q '3 tried, 0 not checked' said.txt; verdict check_plugin_finds_what_is_thrown_and_nothing_else $?
! grep -q 'neither handed over nor let go\|references too\|not its own' said.txt; verdict every_value_is_let_go $?
flow() { # WHAT PARAMETERS
    cat >flow.yaml <<Y
nodes:
  map: {class_type: WrappedValues, inputs: {$1}}
  report: {class_type: WrappedReport, inputs: {map: [map, MAP]$2}}
  note: {class_type: PrimitiveString, inputs: {value: hello}}
  save: {class_type: SaveText, inputs: {text: [report, STRING], filename_prefix: w}}
Y
    rm -rf out && "$kiln" run flow.yaml --plugins . --no-cache -q --out out >said.txt 2>&1 && cat out/w_00001_.txt
}
[ "$(flow '')" = "loud seed share texts 2 a b a 7 0.250000 quiet" ]; verdict defaults_are_the_members $?
[ "$(flow 'text: x, times: 3, seed: 9, loud: true, share: 0.5' ', note: [note, 0]')" = "loud seed share texts 3 x! 9 0.500000 loud hello" ]; verdict values_of_every_kind $?
flow 'times: 10' >/dev/null; grep -q "'10' is not a whole number from 1 to 9" said.txt; verdict ranges_are_the_engines $?
flow 'share: 1' >/dev/null; grep -q "'1' is not a number from 0 to below 1" said.txt; verdict an_end_that_is_not_allowed $?
ends() { # WHAT WORDS
    printf 'nodes:\n  t: {class_type: WrappedThrow, inputs: {what: %s}}\n  s: {class_type: SaveText, inputs: {text: [t, 0]}}\n' "$1" >throw.yaml
    "$kiln" run throw.yaml --plugins . --no-cache --out out >said.txt 2>&1
    [ $? -eq 1 ] && grep -qF "$2" said.txt; verdict "throws_$1" $?
}
ends error "node 't' (WrappedThrow): the first way; take 100% of another"
ends memory "memory"
ends standard "an exception: a standard one"
ends other "an exception that is no std::exception"
ends kind "a value is of another kind than this node takes"
ends ability "this kiln has no org.example.none/1"
exit $status
