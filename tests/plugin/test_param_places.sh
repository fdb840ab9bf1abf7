# test_param_places.sh - what check() says of a parameter (kiln_host.at_param) is shown where its value is written, given or wired;
# ends of a range that are left out are refused there, too.
. "$KILN_ROOT/tests/cli/head.sh"
umask 022
export XDG_CACHE_HOME="$work/cache"
unset KILN_PLUGIN_PATH
models="$PWD/workflows/models"
cd "$work" || exit 2
cat >between.c <<'C'
#define KILN_ABI_MINOR 1
#include <kiln/kit.h>
#include <kiln/graph.h>
typedef struct { int64_t low, high; double share; } between_params;
static const kiln_param param[] = {KIT_INT(between_params, low, 0, -100, 100, "less than high"),
                                   KIT_INT(between_params, high, 1, -100, 100, "more than low"),
                                   {.name = "share", .doc = "open", .type = KILN_P_FLOAT, .flags = KILN_PARAM_ABOVE_MIN | KILN_PARAM_BELOW_MAX,
                                    .offset = offsetof(between_params, share), .def = 0.5, .max = 1}};
static const kiln_port out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "grey"}};
static kiln_status check(const kiln_call *c)
{
    const between_params *p = c->params;
    if (p->low < p->high) return KILN_OK;
    return kit_at_param(c, c->host->fail(c->ctx, KILN_ERR_INVALID, "%d is too much for %d", (int)p->low, (int)p->high), p->low == 99 ? "lwo" : "high");
}
static kiln_status run(const kiln_call *c)
{
    kiln_tensor to;
    TRY(kit_new_f32(c, 4, (int64_t[]){1, 8, 8, 3}, &c->out[0], &to));
    for (int i = 0; i < 192 && to.data; i++) ((float *)to.data)[i] = (float)((const between_params *)c->params)->share;
    return KILN_OK;
}
static kiln_status expand(const kiln_call *c, kiln_graph *g)
{
    const kiln_graph_api *graph = c->host->ability(KILN_GRAPH_ABILITY);
    TRY(graph->node(g, "inner", "Between"));
    return graph->output(g, "IMAGE", "inner", "IMAGE");
}
static const kiln_node between = {KIT_NODE("Between", "Between", "tests", "A grey of two numbers."), KILN_ARRAY(out, out),
                                  KIT_PARAMS(between_params, param), .run = run, .check = check};
static const kiln_node outer = {KIT_NODE_FLAGS(KILN_NODE_EXPANDS, 1, "BetweenOuter", "Outer", "tests", "The same by another node."), KILN_ARRAY(out, out),
                                KIT_PARAMS(between_params, param), .check = check, .expand = expand};
KILN_PLUGIN("org.example.between", "1.0.0", "MIT", &between, &outer);
C
mkdir plugins && gcc -std=c11 -O1 -Wall -Werror -fPIC -shared -I"$KILN_ROOT/include" between.c -o plugins/between.so -lm || exit 2
# workflow TYPE: its inputs are read from standard input, from line 7 on
workflow() {
    cat >w.yaml <<Y
kiln: 1
nodes:
  fifty: {class_type: PrimitiveInt, inputs: {value: 50}}
  grey:
    class_type: $1
    inputs:
Y
    sed 's/^/      /' >>w.yaml
    echo '  save: {class_type: SaveImage, inputs: {images: [grey, 0], filename_prefix: grey}}' >>w.yaml
}
checked() { "$kiln" check w.yaml --plugins plugins "$@" >log 2>&1; code=$?; }
says() { [ "$code" = 2 ] && grep -qF "$1" log; }

workflow Between <<<$'low: 60\nhigh: 50'; checked; says "w.yaml:8:13: error: node 'grey' (Between): input 'high': 60 is too much for 50"; verdict where_it_is_written $?
workflow Between <<<$'low: 60\nhigh: [fifty, 0]'; checked; says "w.yaml:8:13: error: node 'grey' (Between): input 'high': 60 is too much for 50"; verdict where_it_is_wired_to_a_constant $?
workflow Between <<<'low: 60'; checked; says "w.yaml:4:3: error: node 'grey' (Between): input 'high': 60 is too much for 1"; verdict a_default_is_the_nodes $?
workflow Between <<<$'low: 60\nhigh: 70'; checked --set grey.high=50; says "w.yaml:4:3: error: node 'grey' (Between): input 'high': 60 is too much for 50"; verdict what_the_command_line_says_is_the_nodes $?
workflow BetweenOuter <<<$'low: 60\nhigh: 50'; checked; says "w.yaml:8:13: error: node 'grey' (BetweenOuter): input 'high': 60 is too much for 50"; verdict of_a_node_that_expands $?
workflow Between <<<$'low: 99\nhigh: 50'; checked; says "w.yaml:4:3: error: node 'grey' (Between): plugin org.example.between: at_param() names the parameter 'lwo'"; verdict a_name_that_there_is_not $?
workflow Between <<<'share: 0'; checked; says "w.yaml:7:14: error: node 'grey' (Between): input 'share': '0' is not a number above 0 and below 1"; verdict the_low_end $?
workflow Between <<<'share: 1.0'; checked; says "w.yaml:7:14: error: node 'grey' (Between): input 'share': '1.0' is not a number above 0 and below 1"; verdict the_high_end $?
workflow Between <<<'share: 1.0e-300'; "$kiln" run w.yaml --plugins plugins --out out >log 2>&1 && [ -e out/grey_00001_.png ]; verdict and_what_is_next_to_it $?
"$kiln" nodes Between --plugins plugins >log 2>&1; grep -q 'above 0 and below 1' log; verdict described $?
"$kiln" nodes Between --plugins plugins --json >log 2>&1; grep -q '"above_min": *true' log && grep -q '"below_max": *true' log; verdict described_as_json $?

# nodes of kiln's own: what is no value at all, then what check() refuses of values
cat >open.yaml <<'Y'
kiln: 1
nodes:
  b:
    class_type: PolyexponentialScheduler
    inputs: {rho: 0}
  c:
    class_type: ModelSamplingContinuousEDM
    inputs: {model: [m, 0], sigma_min: 0}
  m:
    class_type: CheckpointLoaderSimple
    inputs: {ckpt_name: shapes-sd1}
Y
"$kiln" check open.yaml --models "$models" >log 2>&1; code=$?
says "open.yaml:5:19: error: node 'b' (PolyexponentialScheduler): input 'rho': '0' is not a number above 0 and up to 100"; verdict an_open_bound $?
says "open.yaml:8:40: error: node 'c' (ModelSamplingContinuousEDM): input 'sigma_min': '0' is not a number above 0"; verdict another_one $?
cat >own.yaml <<'Y'
kiln: 1
nodes:
  a:
    class_type: KarrasScheduler
    inputs: {steps: 4, sigma_max: 1, sigma_min: 2}
  m:
    class_type: CheckpointLoaderSimple
    inputs: {ckpt_name: shapes-sd1}
  n:
    class_type: ModelSamplingContinuousV
    inputs: {model: [m, 0], sigma_max: 0.01}
  l:
    class_type: CLIPLoader
    inputs: {clip_name: shapes-sd1, type: sd3}
  e: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  s: {class_type: SaveLatent, inputs: {samples: [e, 0], filename_prefix: ../up}}
Y
"$kiln" check own.yaml --models "$models" >log 2>&1; code=$?
says "own.yaml:5:35: error: node 'a' (KarrasScheduler): sigma_max (1) is below sigma_min (2)"; verdict a_relation $?
says "own.yaml:11:40: error: node 'n' (ModelSamplingContinuousV): sigma_max (0.01) has to be above sigma_min (0.03)"; verdict a_relation_to_a_default $?
says "own.yaml:14:43: error: node 'l' (CLIPLoader): type 'sd3' is the text encoder"; verdict a_choice $?
says "own.yaml:16:74: error: node 's' (SaveLatent): input 'filename_prefix':"; verdict a_prefix_that_leads_out $?
exit $status
