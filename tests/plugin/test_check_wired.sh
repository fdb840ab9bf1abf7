# test_check_wired.sh - check() of a node whose parameters are wired: it is asked with the values that come, before anything runs where a
# constant has them, otherwise right before run(); never with a default that stands for a wire; for each item of a list.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
ulimit -c 0
export XDG_CACHE_HOME="$work/cache"
unset KILN_PLUGIN_PATH
kiln="$KILN_ROOT/$KILN_BUILD/kiln"
cd "$work" || exit 2
verdict() { if [ "$2" -eq 0 ]; then echo "ok $1"; else cat said.txt; echo "FAIL $1"; status=1; fi; }
cat >between.c <<'C'
#include <kiln/kit.h>
typedef struct { int64_t low, high; } between_params;
static const kiln_param param[] = {KIT_INT(between_params, low, 0, -100, 100, "less than high"),
                                   KIT_INT(between_params, high, 1, -100, 100, "more than low")};
static const kiln_port out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "grey"}};
static kiln_status check(const kiln_call *c)
{
    const between_params *p = c->params;
    if (p->low < p->high) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "low is %d and high is %d; low has to be less", (int)p->low, (int)p->high);
}
static kiln_status run(const kiln_call *c)
{
    const between_params *p = c->params;
    kiln_tensor to;
    TRY(kit_new_f32(c, 4, (int64_t[]){1, 8, 8, 3}, &c->out[0], &to));
    for (int i = 0; i < 192 && to.data; i++) ((float *)to.data)[i] = (float)(100 / (int)(p->high - p->low)) / 100; /* equal: it crashes */
    return KILN_OK;
}
static const kiln_node between = {KIT_NODE("Between", "Between", "tests", "A grey of two numbers."), KILN_ARRAY(out, out),
                                  KIT_PARAMS(between_params, param), .run = run, .check = check};
KILN_PLUGIN("org.example.between", "1.0.0", "MIT", &between);
C
mkdir plugins && gcc -std=c11 -O1 -Wall -Werror -fPIC -shared -I"$KILN_ROOT/include" between.c -o plugins/between.so -lm || exit 2
# workflow LOW HIGH: what is written of either; nodes that numbers come from stand beside it
workflow() {
    cat >w.yaml <<Y
kiln: 1
nodes:
  fifty: {class_type: PrimitiveInt, inputs: {value: 50}}
  computed: {class_type: ComfyMathExpression, inputs: {expression: a * 2, values.a: [fifty, 0]}}
  some: {class_type: CreateList, inputs: {inputs.input0: [fifty, 0], inputs.input1: [computed, 1]}}
  grey: {class_type: Between, inputs: {low: $1, high: $2}}
  save: {class_type: SaveImage, inputs: {images: [grey, 0], filename_prefix: grey}}
Y
}
run() { rm -rf out; "$kiln" run w.yaml --plugins plugins --out out >said.txt 2>&1; code=$?; }
checked() { "$kiln" check w.yaml --plugins plugins >said.txt 2>&1; }

workflow 60 50; run; [ $code = 2 ] && grep -q 'low is 60 and high is 50' said.txt; verdict written_ones_before_the_run $?
workflow 60 '[fifty, 0]'; run; [ $code = 2 ] && grep -q 'low is 60 and high is 50' said.txt; verdict those_of_a_constant_before_the_run $?
checked; [ $? = 2 ] && grep -q 'low is 60 and high is 50' said.txt; verdict and_by_kiln_check $?
workflow 20 '[fifty, 0]'; run; [ $code = 0 ] && [ -e out/grey_00001_.png ]; verdict no_default_is_refused_for_a_constant $?
workflow 20 '[computed, 1]'; checked; verdict no_default_is_refused_for_a_wire $?
run; [ $code = 0 ] && [ -e out/grey_00001_.png ]; verdict and_it_runs $?
workflow 100 '[computed, 1]'; checked; verdict what_is_computed_is_not_refused_before $?
run; [ $code = 1 ] && grep -q "low is 100 and high is 100; low has to be less" said.txt && grep -q "'grey'" said.txt && ! grep -q crashed said.txt; verdict but_before_run_is_called $?
workflow 50 '[some, 0]'; run; [ $code = 1 ] && grep -q 'low is 50 and high is 50' said.txt; verdict each_item_of_a_list $?
workflow 20 '[some, 0]'; run; [ $code = 0 ] && [ "$(ls out | wc -l)" -eq 2 ]; verdict all_items_that_are_right $?
exit $status
