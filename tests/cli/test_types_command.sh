# test_types_command.sh - kiln types: the list, one by name, JSON, a misspelt name, a plugin's own type and what is said of a value that is none.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"
unset KILN_PLUGIN_PATH
umask 022
cd "$work" || exit 2
verdict() { if [ "$2" -eq 0 ]; then ok "$1"; else bad "$1" "$(head -c 600 run.txt)"; fi; }

"$kiln" types >run.txt && grep -q '^VIDEO  *a map ' run.txt && grep -q '^IMAGE  *f32 \[N,H,W,C\], the last 3 to 4 ' run.txt; verdict list $?
"$kiln" types LATENT >run.txt && grep -q 'samples  *f32 \[N,L,C\], \[N,H,W,C\] or \[N,T,H,W,C\]' run.txt && grep -q 'noise_mask  *MASK; optional' run.txt
verdict one_by_name $?
"$kiln" types --json >run.txt && python3 -c '
import json
types = {t["name"]: t for t in json.load(open("run.txt"))}
samples = next(e for e in types["LATENT"]["entries"] if e["key"] == "samples")
assert samples["rank_min"] == 3 and samples["rank_max"] == 5 and samples["dtypes"] == ["f32"] and not samples["optional"]
assert types["CONDITIONING"]["kinds"] == ["list"] and types["VIDEO"]["entries"][0]["type"] == "IMAGE"'; verdict json $?
"$kiln" types LATNET >run.txt 2>&1; [ $? -eq 2 ] && grep -q "did you mean 'LATENT'?" run.txt; verdict a_misspelt_name $?

# ---- a plugin's own type
cat >cloud.c <<'C'
#include "kiln/types.h"
static const kiln_value_entry entries[] = {
    {.size = sizeof *entries, .key = "points", .doc = "One a row.", .kinds = 1u << KILN_V_TENSOR, .dtypes = 1u << KILN_F32, .rank_min = 2, .rank_max = 2,
     .last_min = 3, .last_max = 3, .shape = "[N,3]"},
};
static const kiln_value_type cloud = {.size = sizeof cloud, .kind = KILN_V_MAP, .name = "POINT_CLOUD", .doc = "Points.", KILN_ARRAY(entry, entries)};
static kiln_status run(const kiln_call *c)
{
    const kiln_value_api *v = c->host->ability(KILN_VALUE_ABILITY);
    kiln_value *t = c->host->tensor_new(c->ctx, KILN_F32, KILN_CPU, 2, (const int64_t[]){4, WIDTH});
    c->out[0] = v->new_map(c->ctx);
    kiln_status status = v->map_set(c->out[0], "points", t);
    c->host->unref(t);
    return status;
}
static kiln_status take(const kiln_call *c) { return c->in[0] ? KILN_OK : KILN_ERR_BUG; }
static kiln_status open_plugin(const kiln_host *h)
{
    const kiln_types_api *types = h->ability(KILN_TYPES_ABILITY);
    return types ? types->register_type(&cloud) : KILN_ERR_UNSUPPORTED;
}
static const kiln_port port[] = {{.name = "cloud", .type = "POINT_CLOUD", .doc = "Points."}};
static const kiln_node make = {.size = sizeof make, .devices = KILN_CPU, .revision = 1, .type = "MakeCloud", .doc = "Makes.", KILN_ARRAY(out, port), .run = run};
static const kiln_node use = {.size = sizeof use, .flags = KILN_NODE_OUTPUT, .devices = KILN_CPU, .revision = 1, .type = "UseCloud", .doc = "Uses.", KILN_ARRAY(in, port), .run = take};
KILN_PLUGIN_OPEN("org.example.cloud", "1.0.0", "MIT", open_plugin, &make, &use);
C
cat >cloud.yaml <<'Y'
nodes:
  cloud: { class_type: MakeCloud }
  use: { class_type: UseCloud, inputs: { cloud: [cloud, cloud] } }
Y
build() { mkdir -p "$1" && gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared -DWIDTH="$2" -I"$KILN_ROOT/include" cloud.c -o "$1/cloud.so"; }
build good 3 && build bad 2 || exit 2
"$kiln" types POINT_CLOUD --plugins good >run.txt && grep -q 'declared by org.example.cloud' run.txt && grep -q 'points  *f32 \[N,3\]' run.txt; verdict a_plugins_type_is_listed $?
"$kiln" run cloud.yaml --plugins good >run.txt 2>&1; verdict a_value_of_it_goes_through $?
"$kiln" run cloud.yaml --plugins bad >run.txt 2>&1
[ $? -eq 1 ] && grep -q "node 'cloud' (MakeCloud): plugin org.example.cloud: output 'cloud': POINT_CLOUD.points is f32 \[4,2\]; it has to be f32 \[N,3\], the last 3" run.txt
verdict another_value_is_refused_with_a_sentence $?
exit $status
