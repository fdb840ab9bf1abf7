# test_graph_nodes.sh - lists, lazy inputs and nodes that expand, through the command: what a second run, a run with one item more
# and a run after a kill compute; rows of a sweep; estimates; a plugin's mistakes. With the example that expands, built as anybody
# builds it, and a plugin of this file's.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
unset KILN_PLUGIN_PATH KILN_CACHE
export XDG_CACHE_HOME="$work/cache"
kiln="$KILN_ROOT/$KILN_BUILD/kiln"
cd "$work" || exit 2
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else tail -n 20 run.txt; echo "FAIL $1"; status=1; fi
}
compile() { gcc -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -fPIC -shared -I"$KILN_ROOT/include" "$1" -o "$2" -lm || exit 2; }
mkdir good bad
compile "$KILN_ROOT/plugins/examples/refine.c" good/refine.so

cat >good.c <<'C'
#include "kiln/graph.h"
#include "kiln/kit.h"
#include <time.h>
static kiln_status none(const kiln_call *c) { return (c->out[0] = kit_values(c)->new_list(c->ctx)) ? KILN_OK : KILN_ERR_NOMEM; }
static const kiln_port images[] = {{.name = "images", .type = "IMAGE", .flags = KILN_PORT_LIST, .doc = "Many."}};
static const kiln_port image[] = {{.name = "image", .type = "IMAGE", .doc = "One."}};
static const kiln_port boolean[] = {{.name = "BOOLEAN", .type = "BOOLEAN", .doc = "Whether."}};
static const kiln_node no_images = {KIT_NODE("NoImages", "t", "t", "An empty list."), KILN_ARRAY(out, images), .run = none};
/* A picture as it is, a little later; how often it did is in the file that KILN_TEST_CALLS names. */
static kiln_status slow(const kiln_call *c)
{
    FILE *f = getenv("KILN_TEST_CALLS") ? fopen(getenv("KILN_TEST_CALLS"), "a") : NULL;
    if (f) fputs("x", f), fclose(f);
    for (int i = 0; i < 10; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        TRY(c->host->progress(c->ctx, (uint64_t)i, 10, "waiting"));
    }
    c->out[0] = c->host->ref(c->in[0]);
    return KILN_OK;
}
static const kiln_node slowly = {KIT_NODE_FLAGS(KILN_NODE_PURE, 1, "Slowly", "t", "t", "Later."), KILN_ARRAY(in, image), KILN_ARRAY(out, image), .run = slow};
static kiln_status wide(const kiln_call *c)
{
    kiln_tensor t;
    TRY(kit_f32(c, c->in[0], 4, "image", &t));
    return (c->out[0] = kit_values(c)->new_bool(c->ctx, t.dim[2] > 20)) ? KILN_OK : KILN_ERR_NOMEM;
}
static const kiln_node is_wide = {KIT_NODE("IsWide", "t", "t", "More than 20 pixels?"), KILN_ARRAY(in, image), KILN_ARRAY(out, boolean), .run = wide};
static kiln_status breaks(const kiln_call *c) { if (c->estimate) return c->out[0] = c->host->ref(c->in[0]), KILN_OK; return c->host->fail(c->ctx, KILN_ERR_INVALID, "it was computed"); }
static const kiln_node broken = {KIT_NODE("Breaks", "t", "t", "Fails."), KILN_ARRAY(in, image), KILN_ARRAY(out, image), .run = breaks};
/* Looks at its first input before it asks for the second. */
static const kiln_port first_in[] = {{.name = "a", .type = "IMAGE", .doc = "First."}, {.name = "b", .type = "IMAGE", .flags = KILN_PORT_LAZY, .doc = "If it is narrow."}};
static kiln_status first_wants(const kiln_call *c, uint64_t *inputs)
{
    kiln_tensor t;
    if (!c->in[0]) return *inputs = KILN_WANTS_AGAIN, KILN_OK;
    TRY(kit_f32(c, c->in[0], 4, "a", &t));
    *inputs = t.dim[2] > 20 ? 0 : 2;
    return KILN_OK;
}
static kiln_status first_run(const kiln_call *c) { return c->out[0] = c->host->ref(c->in[1] ? c->in[1] : c->in[0]), KILN_OK; }
static const kiln_node first = {KIT_NODE("FirstWide", "t", "t", "The first if it is wide."), KILN_ARRAY(in, first_in), KILN_ARRAY(out, image), .run = first_run, .wants = first_wants};
KILN_PLUGIN("org.example.graph", "1.0.0", "MIT", &no_images, &slowly, &is_wide, &broken, &first);
C
sed -i 's|#include <time.h>|#include <stdio.h>\n#include <stdlib.h>\n#include <time.h>|' good.c && compile good.c good/good.so
run() { "$kiln" run "$1" --plugins good --models "$KILN_ROOT/workflows/models" --cache kept --events events --out "${to:-out}" "${@:2}" >run.txt 2>&1; }
node_said() { grep "\"node\": \"$1\"" events | grep -q "$2"; }

# ---- lists

pictures() { # WIDTH...: a list of pictures of these widths, each slowly
    echo "nodes:"
    for w; do echo "  w$w: {class_type: EmptyImage, inputs: {width: $w, height: 8, color: $w}}"; done
    echo "  list: {class_type: CreateList, inputs: {inputs: [$(for w; do printf '[w%s, 0], ' "$w"; done)]}}"
    echo "  slow: {class_type: Slowly, inputs: {image: [list, 0]}}"
    echo "  inverted: {class_type: ImageInvert, inputs: {image: [slow, 0]}}"
    echo "  save: {class_type: SaveImage, inputs: {images: [inverted, 0], filename_prefix: p}}"
}
export KILN_TEST_CALLS="$work/calls"
calls() { stat -c %s calls 2>/dev/null || echo 0; rm -f calls; }
pictures 8 16 24 >three.yaml; pictures 8 32 16 24 >four.yaml
run three.yaml && [ "$(calls)" = 3 ] && [ "$(ls out | wc -l)" = 3 ]; verdict a_node_runs_for_each_item $?
grep '"event": "item_done"' events | grep '"node": "slow"' | grep -q '"item": 3, "items": 3, .*"cached": false'; verdict each_item_is_an_event $?
run three.yaml && [ "$(calls)" = 0 ] && node_said inverted '"from": "cache"' && [ "$(ls out | wc -l)" = 6 ]; verdict a_second_run_has_the_list $?
run four.yaml && [ "$(calls)" = 1 ] && [ "$(grep '"event": "item_done"' events | grep '"node": "inverted"' | grep -c '"cached": true')" = 3 ]
verdict one_item_more_is_one_call_more $?
"$kiln" run four.yaml --plugins good --no-cache --out plain >run.txt 2>&1 && cmp out/p_00008_.png plain/p_00002_.png && cmp out/p_00010_.png plain/p_00004_.png
verdict the_pictures_are_those_of_no_cache $?
calls >/dev/null

pictures 40 41 42 43 44 45 46 47 48 49 50 51 >twelve.yaml
: >events # exec: the process itself is the one that is killed
( exec "$kiln" run twelve.yaml --plugins good --cache kept --events events --out killed ) >run.txt 2>&1 &
pid=$!
for _ in $(seq 200); do [ "$(grep -c '"event": "item_done"' events)" -ge 3 ] && break; sleep 0.05; done
sleep 1.2 # what was kept is committed after a second
kill -9 $pid; wait $pid 2>/dev/null; calls >before
to=killed run twelve.yaml && [ "$(calls)" -lt 12 ] && [ "$(grep '"event": "item_done"' events | grep '"node": "slow"' | grep -c '"cached": true')" -ge 3 ] &&
    [ "$(ls killed/*.png | wc -l)" = 12 ]
verdict a_killed_run_keeps_the_items_it_finished $?

"$kiln" run twelve.yaml --plugins good --cache other --dry-run >run.txt 2>&1
grep -Eq '^w40 +EmptyImage' run.txt && grep -Eq '^slow +Slowly .* run +\?' run.txt; verdict a_node_that_cannot_estimate_is_unknown $?
sed 's/Slowly/ImageInvert/' twelve.yaml >invert.yaml
"$kiln" run invert.yaml --plugins good --cache other --dry-run >run.txt 2>&1; grep -Eq '^slow +ImageInvert .* run 12/12' run.txt; verdict a_dry_run_counts_items $?
"$kiln" run invert.yaml --plugins good --cache other --out o3 -q >run.txt 2>&1
"$kiln" run invert.yaml --plugins good --cache other --dry-run >run.txt 2>&1; grep -Eq '^inverted .* cached' run.txt && ! grep -q '^slow' run.txt; verdict a_dry_run_knows_the_kept_list $?
pictures 40 41 42 43 44 45 46 47 48 49 50 51 52 >thirteen.yaml
sed 's/EmptyImage, inputs: {width: \([0-9]*\), height: 8, color: [0-9]*}/PrimitiveInt, inputs: {value: \1}/; s/slow: .*/slow: {class_type: EmptyImage, inputs: {width: [list, 0], height: 8}}/' thirteen.yaml >numbers13.yaml
sed '/ w52:/d; s/\[w52, 0\], //' numbers13.yaml >numbers12.yaml
"$kiln" run numbers12.yaml --cache other --out o4 -q >run.txt 2>&1; "$kiln" run numbers13.yaml --cache other --dry-run >run.txt 2>&1
grep -Eq '^slow +EmptyImage .* run 1/13' run.txt && grep -Eq '^inverted +ImageInvert .* run 1/13' run.txt; verdict a_dry_run_knows_kept_items $?
"$kiln" run invert.yaml --plugins good --explain >run.txt 2>&1; verdict a_list_is_explained $?

# Two processes share the calls of one list.
calls >/dev/null
for i in 1 2; do "$kiln" run three.yaml --plugins good --cache both --out "both$i" >"both$i.txt" 2>&1 & done
wait; cat both1.txt both2.txt >run.txt
[ "$(calls)" = 3 ] && [ "$(ls both1/*.png both2/*.png | wc -l)" = 6 ] && cmp both1/p_00003_.png both2/p_00003_.png; verdict two_processes_compute_each_item_once $?
# What is left of a list whose items were evicted is no list: they are computed again.
pictures 3000 3001 3002 3003 >large.yaml
"$kiln" run large.yaml --plugins good --cache evicted --out large1 >run.txt 2>&1 && rm -r evicted/values/?? || verdict values_are_in_files 1
calls >/dev/null; "$kiln" run large.yaml --plugins good --cache evicted --out large2 >>run.txt 2>&1 && [ "$(calls)" -ge 1 ] && cmp large1/p_00004_.png large2/p_00004_.png
verdict evicted_items_are_computed_again $?

gcc -std=c11 -I"$KILN_ROOT/include" "$KILN_ROOT/docs/library/run_workflow.c" -o run_workflow -L"$KILN_ROOT/$KILN_BUILD" -lkiln >run.txt 2>&1
case $KILN_BUILD in
*-address | *-undefined | *-thread) echo "skip library: a sanitizer's library needs a program of its own kind" ;;
*)  cp "$KILN_ROOT/workflows/several.yaml" . && ln -s "$KILN_ROOT/workflows/models" models
    LD_LIBRARY_PATH="$KILN_ROOT/$KILN_BUILD" ./run_workflow several.yaml library steps=1 >run.txt 2>&1 &&
        grep -q '15 of 15 nodes ran' run.txt && [ "$(ls library/*.png | wc -l)" = 3 ]
    verdict a_program_runs_a_list_too $? ;;
esac

cat >empty.yaml <<'Y'
nodes:
  none: {class_type: NoImages}
  inverted: {class_type: ImageInvert, inputs: {image: [none, 0]}}
  save: {class_type: SaveImage, inputs: {images: [inverted, 0], filename_prefix: e}}
Y
rm -rf out; run empty.yaml && [ -z "$(ls out)" ] && grep -q "node 'save' (SaveImage): the list that it takes is empty, so it does nothing" run.txt
verdict an_empty_list_does_nothing_and_says_so $?
run empty.yaml && node_said inverted '"from": "cache"'; verdict an_empty_list_is_kept_too $?

cat >sizes.yaml <<'Y'
params: {extra: 16}
nodes:
  a: {class_type: PrimitiveInt, inputs: {value: 8}}
  b: {class_type: PrimitiveInt, inputs: {value: "${extra}"}}
  list: {class_type: CreateList, inputs: {inputs.input0: [a, 0], inputs.input1: [b, 0]}}
  image: {class_type: EmptyImage, inputs: {width: [list, 0], height: 8}}
  whole: {class_type: RebatchImages, inputs: {images: [image, 0], batch_size: 9}}
  save: {class_type: SaveImage, inputs: {images: [whole, 0], filename_prefix: s}}
Y
rm -rf out; run sizes.yaml; [ $? -eq 1 ] && grep -q "node 'whole' (RebatchImages): pictures of 8x8 and of 16x8 cannot be of one batch; scale them to one size, or take batch_size 1" run.txt
verdict pictures_of_two_sizes_are_no_batch $?
run sizes.yaml --over extra=8,12,16 --set whole.batch_size=1 && [ "$(ls out/*.png | wc -l)" = 6 ] && [ "$(grep -c '"status": "done"' out/manifest.jsonl)" = 3 ]
verdict a_sweep_over_an_item $?
began=$(date +%s.%N); "$kiln" run three.yaml --plugins good --cache rows --out rows --over w8.color=1,2 >run.txt 2>&1; ended=$(date +%s.%N)
sed -n 's/.*"seconds": \([0-9.]*\).*/\1/p' rows/manifest.jsonl | sort -n | tr '\n' ' ' >seconds # 0.2 s a call: one row has three; the other has one, or waits beside it
read -r one three <seconds; awk -v a="$one" -v b="$three" -v wall="$(awk -v x="$began" -v y="$ended" "BEGIN { print y - x }")" 'BEGIN { exit !(a >= 0.2 && b >= 0.6 && b <= wall) }'; verdict the_manifest_counts_a_list_once $?

"$kiln" graph sizes.yaml --plugins good -o - >run.txt 2>&1 && grep -q 'label="image\\nEmptyImage\\nfor each item[^"]*", peripheries=2' run.txt &&
    grep -q 'label="INT list", tooltip="width", color="[^"]*", fontcolor="[^"]*", style=bold' run.txt && grep -q 'label="whole\\nRebatchImages\(\\n[^"]*\)*"\]' run.txt
verdict a_graph_shows_lists $?

# ---- lazy inputs

cat >switch.yaml <<'Y'
params: {on: false, width: 16}
nodes:
  a: {class_type: EmptyImage, inputs: {width: "${width}", height: 8}}
  b: {class_type: Breaks, inputs: {image: [a, 0]}}
  s: {class_type: ComfySwitchNode, inputs: {switch: "${on}", on_false: [a, 0], on_true: [b, 0]}}
  save: {class_type: SaveImage, inputs: {images: [s, 0], filename_prefix: x}}
Y
"$kiln" graph switch.yaml --plugins good -o - >run.txt 2>&1 && grep -q 'tooltip="on_true", style=dotted, color=grey' run.txt && ! grep -q style=dashed.*tooltip run.txt
verdict a_graph_shows_the_unwanted_wire $?
rm -rf out; run switch.yaml && ! grep -q '"node": "b"' events; verdict the_other_branch_is_not_computed $?
run switch.yaml --set on=true; [ $? -eq 1 ] && grep -q 'it was computed' run.txt; verdict the_chosen_branch_is $?
"$kiln" run switch.yaml --plugins good --dry-run --no-cache >run.txt 2>&1; ! grep -q '^b ' run.txt; verdict a_dry_run_leaves_it_out $?
to=again run out/x_00001_.png && cmp out/x_00001_.png again/x_00001_.png; verdict a_picture_has_both_branches $?
run switch.yaml --over on=false,true; [ $? -ne 0 ] && grep -q '"status": "failed"' out/manifest.jsonl && grep -q '"status": "done"' out/manifest.jsonl; verdict a_sweep_over_a_switch $?
sed 's/switch: "${on}"/switch: [wide, 0]/; s/^nodes:/nodes:\n  wide: {class_type: IsWide, inputs: {image: [a, 0]}}/; s/on: false, //' switch.yaml >computed.yaml
"$kiln" graph computed.yaml --plugins good -o - >run.txt 2>&1 && grep -q 'tooltip="on_true", .*style=dashed' run.txt && grep -q 'tooltip="on_false", .*style=dashed' run.txt
verdict a_graph_shows_lazy_wires $?
run computed.yaml && ! grep -q '"node": "b"' events; verdict a_computed_switch_is_asked_in_the_run $?
run computed.yaml --set width=24; [ $? -eq 1 ] && grep -q 'it was computed' run.txt; verdict and_takes_what_it_says $?
"$kiln" run computed.yaml --plugins good --dry-run --no-cache >run.txt 2>&1; grep -q '^b .* run' run.txt; verdict an_estimate_has_all_branches $?
sed 's/  s: .*/  s: {class_type: FirstWide, inputs: {a: [a, 0], b: [b, 0]}}/; s/on: false, //' switch.yaml >first.yaml
run first.yaml --set width=24 && ! grep -q '"node": "b"' events; verdict a_node_looks_before_it_asks $?
run first.yaml --set width=12; [ $? -eq 1 ] && grep -q 'it was computed' run.txt; verdict and_asks $?

# ---- what a picture says of a wired number

cat >words.yaml <<'Y'
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}
  yes: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: a red circle}}
  steps: {class_type: PrimitiveInt, inputs: {value: 3}}
  seven: {class_type: PrimitiveInt, inputs: {value: 7}}
  seeds: {class_type: CreateList, inputs: {inputs.input0: [seven, 0]}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  k: {class_type: KSampler, inputs: {model: [model, 0], positive: [yes, 0], negative: [yes, 0], latent_image: [empty, 0], seed: [seeds, 0], steps: [steps, 0], cfg: 4, sampler_name: euler, scheduler: normal}}
  d: {class_type: VAEDecode, inputs: {samples: [k, 0], vae: [model, 2]}}
  save: {class_type: SaveImage, inputs: {images: [d, 0], filename_prefix: words}}
Y
run words.yaml && grep -aq 'Steps: 3, Sampler: euler' out/words_00001_.png && ! grep -aq 'Seed: ' out/words_00001_.png; verdict a_wired_constant_is_written_and_a_list_is_not $?

# ---- nodes that expand

cat >refine.yaml <<'Y'
params: {times: 2, steps: 2}
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}
  yes: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: a red circle}}
  no: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: ""}}
  blank: {class_type: EmptyImage, inputs: {width: 64, height: 64, color: 8421504}}
Y
cp refine.yaml flat.yaml
cat >>refine.yaml <<'Y'
  r: {class_type: ExampleRefine, inputs: {image: [blank, 0], model: [model, 0], positive: [yes, 0], negative: [no, 0], vae: [model, 2], times: "${times}", scale: 1.25, steps: "${steps}", seed: 5, denoise: 0.5}}
  save: {class_type: SaveImage, inputs: {images: [r, image], filename_prefix: r}}
Y
for i in 1 2; do cat >>flat.yaml <<Y
  s$i: {class_type: ImageScaleBy, inputs: {image: [$([ $i = 1 ] && echo blank || echo d1), 0], upscale_method: bicubic, scale_by: 1.25}}
  e$i: {class_type: VAEEncode, inputs: {pixels: [s$i, 0], vae: [model, 2]}}
  k$i: {class_type: KSampler, inputs: {model: [model, 0], positive: [yes, 0], negative: [no, 0], latent_image: [e$i, 0], seed: $((4 + i)), steps: "\${steps}", cfg: 8, sampler_name: euler, scheduler: normal, denoise: 0.5}}
  d$i: {class_type: VAEDecode, inputs: {samples: [k$i, 0], vae: [model, 2]}}
Y
done
echo '  save: {class_type: SaveImage, inputs: {images: [d2, 0], filename_prefix: r}}' >>flat.yaml
sed -i 's/params: {times: 2, /params: {/' flat.yaml
rm -rf out
run refine.yaml && node_said r/draw2 '"from": "computed"'; verdict the_example_expands $?
to=flat run flat.yaml && node_said d2 '"from": "cache"'; verdict written_out_it_has_the_same_keys $?
[ "$("$kiln" run out/r_00001_.png --models "$KILN_ROOT/workflows/models" --no-cache --out again2 2>/dev/null)" = again2/r_00001_.png ] && cmp out/r_00001_.png again2/r_00001_.png
verdict its_picture_runs_without_the_plugin $?
run refine.yaml --set times=3 && node_said r/decode2 '"from": "cache"' && node_said r/draw3 '"from": "computed"'; verdict one_time_more_begins_behind_the_last $?
run refine.yaml --over times=0,1,2 && [ "$(grep -c '"status": "done"' out/manifest.jsonl)" = 3 ]; verdict a_sweep_over_how_often $?
"$kiln" graph refine.yaml --plugins good --models "$KILN_ROOT/workflows/models" -o - >run.txt 2>&1 && grep -q 'subgraph "cluster_r" { label="r\\nExampleRefine"' run.txt && grep -q 'label="r/draw2\\nKSampler' run.txt
verdict a_graph_has_a_box_round_it $?
run refine.yaml --set r.times=many; [ $? -eq 2 ] && grep -q "node 'r' (ExampleRefine): input 'times': 'many' is not a whole number from 0 to 8" run.txt; verdict its_parameters_are_checked $?
run refine.yaml --set r.sampler_name=eular; [ $? -eq 2 ] && grep -q "did you mean 'euler'" run.txt; verdict and_those_it_passes_on $?
"$kiln" check-plugin good/refine.so >run.txt 2>&1 && grep -q '1 tried, 0 not checked' run.txt; verdict check_plugin_expands_it $?
"$kiln" nodes ComfySwitchNode CreateList ExampleRefine --plugins good >run.txt 2>&1
grep -q 'on_true  *\*T, computed only if it is wanted' run.txt && grep -q 'inputs  *\*T, any number of wires, lists whole' run.txt && grep -q 'list  *\*T, a list' run.txt && grep -q '(expands into other nodes)' run.txt
verdict the_rows_are_described $?

# ---- mistakes of a plugin

row() { # NAME REST: a plugin with one node
    cat >"bad/$1.c" <<C
#include "kiln/graph.h"
#include "kiln/kit.h"
static const kiln_port image[] = {{.name = "image", .type = "IMAGE", .doc = "One."}};
static const kiln_port lazy[] = {{.name = "image", .type = "IMAGE", .flags = KILN_PORT_LAZY, .doc = "One."}};
static const kiln_port both[] = {{.name = "plain", .type = "IMAGE", .doc = "One."}, {.name = "image", .type = "IMAGE", .flags = KILN_PORT_LAZY, .doc = "One."}};
static const kiln_port variable[] = {{.name = "image", .type = "*T", .doc = "One."}};
typedef struct { int64_t n; } p_params;
static const kiln_param passed[] = {{.name = "n", .type = KILN_P_INT, .flags = KILN_PARAM_PASSED, .max = 9, .doc = "A number."}};
static kiln_status run(const kiln_call *c) { return c->out[0] = c->host->ref(c->in[0] ? c->in[0] : c->in[1]), KILN_OK; }
static kiln_status wants(const kiln_call *c, uint64_t *inputs) { (void)c; *inputs = 3; return KILN_OK; }
static kiln_status expand(const kiln_call *c, kiln_graph *g) { const kiln_graph_api *b = c->host->ability(KILN_GRAPH_ABILITY); b->node(g, "x", "Nothing"); return b->output(g, "image", "x", "IMAGE"); }
static const kiln_node node = {$2};
static const void *const use[] __attribute__((used)) = {image, lazy, both, variable, passed, (const void *)run, (const void *)wants, (const void *)expand};
KILN_PLUGIN("org.example.bad", "1.0.0", "MIT", &node);
C
    gcc -std=c11 -w -fPIC -shared -I"$KILN_ROOT/include" "bad/$1.c" -o "bad/$1.so" || exit 2
}
refused() { # NAME ROW WORDS
    row "$1" "$2"
    "$kiln" plugins --plugins "bad/$1.so" >run.txt 2>&1; grep -q "node Bad: $3" run.txt; verdict "refused_$1" $?
}
pure='KIT_NODE("Bad", "t", "t", "Bad.")'
expands='KIT_NODE_FLAGS(KILN_NODE_EXPANDS, 1, "Bad", "t", "t", "Bad.")'
refused lazy_without_wants "$pure, KILN_ARRAY(in, lazy), KILN_ARRAY(out, image), .run = run" 'has lazy inputs but no wants() that asks for them'
refused wants_without_lazy "$pure, KILN_ARRAY(in, image), KILN_ARRAY(out, image), .run = run, .wants = wants" 'wants() but no lazy input'
refused lazy_output "$pure, KILN_ARRAY(in, image), KILN_ARRAY(out, lazy), .run = run" "output 'image' has flags of an input"
refused loose_variable "$pure, KILN_ARRAY(in, image), KILN_ARRAY(out, variable), .run = run" "output 'image' is of type \*T, which no input has"
refused expands_and_runs "$expands, KILN_ARRAY(in, image), KILN_ARRAY(out, image), .run = run, .expand = expand" 'expands into other nodes and so has no run()'
refused expand_without_flag "$pure, KILN_ARRAY(in, image), KILN_ARRAY(out, image), .run = run, .expand = expand" 'KILN_NODE_EXPANDS and expand() belong together'
refused passed_without_expand "$pure, KILN_ARRAY(in, image), KILN_ARRAY(out, image), KIT_PARAMS(p_params, passed), .run = run" "parameter 'n' has KILN_PARAM_PASSED, but the node does not expand"
refused constant_with_inputs 'KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_CONSTANT, 1, "Bad", "t", "t", "Bad."), KILN_ARRAY(in, image), KILN_ARRAY(out, image), .run = run' 'KILN_NODE_CONSTANT is for a PURE node without inputs'
cat >bad.yaml <<'Y'
nodes:
  a: {class_type: EmptyImage, inputs: {width: 8, height: 8}}
  b: {class_type: Bad, inputs: {plain: [a, 0], image: [a, 0]}}
  save: {class_type: SaveImage, inputs: {images: [b, 0], filename_prefix: x}}
Y
row wants_plain "$pure, KILN_ARRAY(in, both), KILN_ARRAY(out, image), .run = run, .wants = wants"
"$kiln" check bad.yaml --plugins bad/wants_plain.so >run.txt 2>&1
[ $? -ne 0 ] && grep -q "node 'b' (Bad): plugin org.example.bad: wants() asked for input 'plain', which is not lazy; give it KILN_PORT_LAZY" run.txt; verdict wants_of_a_plain_input $?
row missing_type "$expands, KILN_ARRAY(in, image), KILN_ARRAY(out, image), .expand = expand"
sed -i 's/plain: \[a, 0\], //' bad.yaml; "$kiln" check bad.yaml --plugins bad/missing_type.so >run.txt 2>&1
[ $? -ne 0 ] && grep -q "bad.yaml:3:3: error: node 'b/x' (Nothing), which 'b' (Bad) expands into: no node type is called 'Nothing'\|node 'b/x' (Nothing), which 'b' (Bad) expands into: no node type" run.txt; verdict expand_of_a_missing_type $?
exit $status
