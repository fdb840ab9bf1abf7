# test_estimate.sh - --explain, --dry-run and the check of a memory budget are one estimate: their rows are what runs, no node is called in it that has
# not said it may be, and one that has said so sees no data. A plugin built here writes down each call of its nodes.
cd "$KILN_ROOT" || exit 2
kiln="$PWD/$KILN_BUILD/kiln"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
umask 022
export XDG_CACHE_HOME="$work/cache"
status=0
ok() { echo "ok $1"; }
bad() { echo "  $2"; echo "FAIL $1"; status=1; }
check() { local name=$1; shift; if "$@"; then ok "$name"; else bad "$name" "$(tail -n 12 "$work/log" 2>/dev/null)"; fi; }
same() { # NAME A B: two texts
    if [ "$2" = "$3" ]; then ok "$1"; else bad "$1" "$(diff <(echo "$2") <(echo "$3"))"; fi
}

# ---- the plugin: Plain has no KILN_NODE_ESTIMATES, Aware has
mkdir "$work/plugins"
cat >"$work/calls.c" <<'C'
#include "kiln/files.h"
#include "kiln/kit.h"
#include <stdio.h>
#include <stdlib.h>
typedef struct { int64_t side; } params;
static const kiln_port in[] = {{.name = "image", .type = "IMAGE", .doc = "A picture."}};
static const kiln_port out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "A black picture."}};
static const kiln_param param[] = {KIT_INT(params, side, 16, 1, 8192, "Pixels.")};
static void note(const kiln_call *c, const char *who, const kiln_tensor *a, const kiln_tensor *r)
{
    FILE *f = fopen(getenv("CALLS"), "a");
    fprintf(f, "%s%s %s %s\n", who, c->estimate ? " estimated" : "", !a ? "-" : a->data ? "data" : "none", r->data ? "data" : "none");
    fclose(f);
}
static kiln_status plain_run(const kiln_call *c)
{
    int64_t side = ((const params *)c->params)->side;
    kiln_tensor r;
    TRY(kit_new_f32(c, 4, (const int64_t[]){1, side, side, 3}, &c->out[0], &r));
    note(c, "plain", NULL, &r);
    if (r.data) memset(r.data, 0, kit_count(&r) * sizeof(float));
    return KILN_OK;
}
static kiln_status aware_run(const kiln_call *c)
{
    kiln_tensor a, r;
    TRY(kit_f32(c, c->in[0], 4, "image", &a));
    TRY(kit_new_f32(c, 4, a.dim, &c->out[0], &r));
    note(c, "aware", &a, &r);
    if (!kit_estimating(c)) memset(r.data, 0, kit_count(&r) * sizeof(float));
    return KILN_OK;
}
static const kiln_node plain = {KIT_NODE_FLAGS(KILN_NODE_PURE, 1, "Plain", "Plain", "test", "Has not said that it estimates."), KILN_ARRAY(out, out), KIT_PARAMS(params, param), .run = plain_run};
static const kiln_node aware = {KIT_NODE("Aware", "Aware", "test", "Estimates."), KILN_ARRAY(in, in), KILN_ARRAY(out, out), KIT_PARAMS(params, param), .run = aware_run};
static kiln_status careless_run(const kiln_call *c)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    kiln_file *f = files->create(c->ctx, KILN_FILES_OUTPUT, "careless", "txt");
    return f ? files->commit(f, NULL) : KILN_ERR_IO;
}
static const kiln_node careless = {KIT_NODE_FLAGS(KILN_NODE_OUTPUT | KILN_NODE_ESTIMATES, 1, "Careless", "Careless", "test", "Writes in an estimate too."), KILN_ARRAY(in, in), .run = careless_run};
KILN_PLUGIN("org.example.calls", "1.0.0", "MIT", &plain, &aware, &careless);
C
gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared -Iinclude "$work/calls.c" -o "$work/plugins/calls.so" || exit 2
export CALLS="$work/calls"
cat >"$work/calls.yaml" <<'Y'
kiln: 1
nodes:
  empty: {class_type: EmptyImage, inputs: {width: 16, height: 16}}
  aware: {class_type: Aware, inputs: {image: [empty, 0]}}
  save: {class_type: SaveImage, inputs: {images: [aware, 0], filename_prefix: a}}
  plain: {class_type: Plain, inputs: {side: 16}}
  after: {class_type: Aware, inputs: {image: [plain, 0]}}
  last: {class_type: SaveImage, inputs: {images: [after, 0], filename_prefix: b}}
Y
calls() { "$kiln" run "$work/calls.yaml" --plugins "$work/plugins" --no-cache --jobs 1 --out "$work/out" "$@" >"$work/log" 2>&1; }
called() { cat "$CALLS" 2>/dev/null; rm -f "$CALLS"; }

for mode in --dry-run --explain; do
    name=${mode#--}; name=${name%-*}
    check "${name}_with_unknown_nodes" calls $mode
    same "${name}_calls_only_who_said_so_and_without_data" "aware estimated none none" "$(called)"
    same "${name}_shows_what_is_unknown" "after last plain" "$(sed -nE 's/^(\S+) .* \?( .*|$)/\1/p' "$work/log" | grep -v '^?' | sort | tr '\n' ' ' | sed 's/ $//')"
    check "${name}_counts_what_is_unknown" grep -q '^?: 3 nodes could not be estimated' "$work/log"
    check "${name}_leaves_nothing_behind" [ ! -e "$work/out" ]
done
check a_run calls
same a_run_has_data $'aware data data\naware data data\nplain - data' "$(called | sort)"
check a_run_under_a_budget calls --memory 1M --device cpu
same a_budget_calls_once_more_who_said_so $'aware data data\naware data data\naware estimated none none\nplain - data' "$(called | sort)"
calls --memory 4M --device cpu --set plain.side=4096 # what it makes is 200 MB; nobody knew
check a_budget_too_small_for_the_unknown_is_found_when_it_runs grep -q "node 'plain' (Plain): .*memory" "$work/log"
check and_the_rest_was_finished [ -n "$(find "$work/out" -name 'a_*')" ]
same a_sweep_calls_only_who_said_so "aware estimated none none" "$(called >/dev/null; calls --over save.filename_prefix=a,b --dry-run; called)"
check a_sweep_counts_what_is_unknown grep -q "^?: 4 nodes could not be estimated" "$work/log" # two write

# what comes from the cache has data, and a node in an estimate sees none all the same
kept() { "$kiln" run "$work/calls.yaml" --plugins "$work/plugins" --cache "$work/kept.calls" --jobs 1 --out "$work/out" "$@" >"$work/log" 2>&1; }
kept; called >/dev/null
check a_dry_run_over_the_cache kept --set aware.side=17 --dry-run
same a_cached_input_has_no_data_either "aware estimated none none" "$(called)"
check it_came_from_the_cache grep -q '^empty .* cached' "$work/log"
printf 'nodes:\n  empty: {class_type: EmptyImage}\n  careless: {class_type: Careless, inputs: {image: [empty, 0]}}\n' >"$work/careless.yaml"
check a_node_that_writes_in_an_estimate_is_refused eval '! "$kiln" run "$work/careless.yaml" --plugins "$work/plugins" --no-cache --dry-run --out "$work/none" >"$work/log" 2>&1'
check and_named grep -q "node 'careless' (Careless): plugin org.example.calls: writes a file in an estimate" "$work/log"

# ---- rows of --dry-run = rows of --explain = what runs
tiny() { "$kiln" run workflows/txt2img.yaml --models tests/golden --set model.ckpt_name=tiny-sd1 --set empty.width=64 --set empty.height=64 --set steps=2 "$@"; }
rows() { awk 'NR > 1 && length($3) == 16 && $3 ~ /^[0-9a-f]+$/ { print $1, $2, $3 }' | sort; }
ran() { sed -nE 's/.*"node_done".*"node": "([^"]*)", "type": "([^"]*)".*"key": "([0-9a-f]{16}).*"from": "'"$1"'".*/\1 \2 \3/p' "$work/events" | sort; }
kept="$work/kept"
explained=$(tiny --explain | rows)
dry=$(tiny --dry-run --cache "$kept" | rows)
tiny --cache "$kept" --events "$work/events" --out "$work/t" >/dev/null 2>&1
check it_looks_at_seven_nodes [ "$(echo "$explained" | wc -l)" = 7 ]
same dry_run_has_the_rows_of_explain "$explained" "$dry"
same what_runs_has_them_too "$explained" "$(ran computed)"
tiny --dry-run --cache "$kept" --set seed=2 >"$work/log"
dry_run_says() { awk -v what="$1" 'NR > 1 && length($3) == 16 && $3 ~ /^[0-9a-f]+$/ && $4 == what { print $1, $2, $3 }' "$work/log" | sort; }
tiny --cache "$kept" --events "$work/events" --out "$work/t" --set seed=2 >/dev/null 2>&1
same what_would_run_runs "$(dry_run_says run)" "$(ran computed)"
same what_is_cached_is_fetched "$(dry_run_says cached)" "$(ran cache)"
check both_kinds_are_there [ -n "$(dry_run_says run)" -a -n "$(dry_run_says cached)" ]
same totals_count_the_rows "$(dry_run_says run | wc -l) to run, $(dry_run_says cached | wc -l) from the cache" "$(grep -oE '^[0-9]+ to run, [0-9]+ from the cache' "$work/log")"

# ---- a single run and a sweep of one row: the same bytes, the same keys
tiny --no-cache --set seed=5 --out "$work/one" --events "$work/events" >/dev/null 2>"$work/log"
one=$(ran computed)
tiny --no-cache --over seed=5 --out "$work/row" --events "$work/events" >/dev/null 2>"$work/log"
same one_row_has_the_keys_of_a_single_run "$one" "$(ran computed)"
check one_row_makes_the_bytes_of_a_single_run cmp "$work/one/kiln_00001_.png" "$work/row/kiln_00001_.png"
key=$(sed -nE 's/.*"keys": \{"save": "([0-9a-f]{16}).*/\1/p' "$work/row/manifest.jsonl")
same the_manifest_has_them_too "$(echo "$one" | awk '$1 == "save" { print $3 }')" "$key"
exit $status
