# test_params_plugin.sh - a plugin built against include/kiln alone has a struct of its own filled through kiln.params/1: from text, with
# the engine's defaults, conversions and sentences, in a real run.
cd "$KILN_ROOT" || exit 2
kiln="$PWD/$KILN_BUILD/kiln"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
unset KILN_CACHE
umask 022
export XDG_CACHE_HOME="$work/xdg"
status=0
says() { # NAME EXPECTED SETTINGS: the run's output has the line
    "$kiln" run "$work/tuned.yaml" --plugins "$work/plugins" --set "settings=$3" --out "$work/out" --cache "$work/$1" >"$work/log" 2>&1
    if grep -qF -- "$2" "$work/log"; then echo "ok $1"; else echo "  not '$2' but:"; sed 's/^/    /' "$work/log"; echo "FAIL $1"; status=1; fi
}
mkdir "$work/plugins"
cat >"$work/tuned.c" <<'C'
#include "kiln/kit.h"
#include "kiln/params.h"
#include <stdio.h>
typedef struct { double eta; int64_t order; int32_t way; const char *label; } settings;
static const kiln_choice ways[] = {{.name = "forward", .value = 0}, {.name = "backward", .value = 7}, {0}};
static const kiln_param rows[] = {
    {.name = "eta", .doc = "Noise.", .type = KILN_P_FLOAT, .offset = offsetof(settings, eta), .def = 0.5, .max = 1},
    {.name = "order", .doc = "Of it.", .type = KILN_P_INT, .offset = offsetof(settings, order), .def = 2, .min = 1, .max = 4},
    {.name = "way", .doc = "Which.", .type = KILN_P_ENUM, .offset = offsetof(settings, way), KILN_CHOICES(ways)},
    {.name = "label", .doc = "Said.", .type = KILN_P_STRING, .offset = offsetof(settings, label), .def_str = "none"},
};
static const kiln_param_table table = {
    .size = sizeof table, .noun = "setting", .owner = "the tuner", KILN_ARRAY(param, rows), .params_size = sizeof(settings)};
typedef struct { const char *text; } params;
static const kiln_param param[] = {
    {.name = "settings", .doc = "By name.", .type = KILN_P_STRING, .offset = offsetof(params, text), .def_str = ""}};
static kiln_status tune(const kiln_call *c, kiln_value *map)
{
    const kiln_params_api *p = c->host->ability(KILN_PARAMS_ABILITY);
    settings s;
    char line[200];
    if (!p) return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, "no kiln.params/1");
    TRY(p->parse(c->ctx, &table, ((const params *)c->params)->text, map));
    TRY(p->fill(c->ctx, &table, map, &s));
    snprintf(line, sizeof line, "eta %g, order %d, way %d, label %s", s.eta, (int)s.order, (int)s.way, s.label);
    c->host->log(KILN_LOG_WARN, line);
    return KILN_OK;
}
static kiln_status run(const kiln_call *c)
{
    kiln_value *map = kit_values(c)->new_map(c->ctx);
    kiln_status status = map ? tune(c, map) : KILN_ERR_NOMEM;
    c->host->unref(map);
    return status;
}
static const kiln_node node = {.size = sizeof node, .flags = KILN_NODE_OUTPUT, .devices = KILN_CPU, .revision = 1, .type = "TestTuned",
    .doc = "Says its settings.", KILN_ARRAY(param, param), .params_size = sizeof(params), .run = run};
KILN_PLUGIN("org.test.tuned", "1", "MIT", &node);
C
cc -std=c11 -Wall -Wextra -Werror -fPIC -shared -Iinclude "$work/tuned.c" -o "$work/plugins/tuned.so" || exit 2
cat >"$work/tuned.yaml" <<'Y'
params: {settings: ""}
nodes:
  tuned: { class_type: TestTuned, inputs: { settings: "${settings}" } }
Y
says defaults "eta 0.5, order 2, way 0, label none" ""
says values_by_name "eta 1, order 3, way 7, label 5.0" "order=3.0, eta = 1,way=backward, label=5.0"
says outside_the_range "node 'tuned' (TestTuned): setting 'eta' of the tuner: '1.5' is not a number from 0 to 1" "eta=1.5"
says no_whole_number "setting 'order' of the tuner: '2.5' is not a whole number from 1 to 4" "order=2.5"
says a_misspelt_name "the tuner has no setting 'ordre'; did you mean 'order'?" "ordre=1"
says no_name_near "the tuner has no setting 'x'; it has eta, order, way, label" "x=1"
says a_misspelt_choice "setting 'way' of the tuner: 'backwards' is not a choice; did you mean 'backward'?" "way=backwards"
says no_choice_near "setting 'way' of the tuner: 'q' is not one of forward, backward" "way=q"
exit $status
