# test_odd_plugin.sh - plugins whose tables say what few do: what `kiln nodes`, `plugins`, `plugin info|list|index|check`, `samplers` and `types` show of them.
. "$KILN_ROOT/tests/cli/head.sh"
unset KILN_PLUGIN_PATH KILN_MODELS KILN_INPUT MAKEFLAGS MFLAGS MAKELEVEL
export HOME="$work/home" XDG_CACHE_HOME="$work/cache" XDG_DATA_HOME="$work/data" KILN_CACHE=off
mkdir "$work/home" && cd "$work" || exit 2
umask 022
k() { "$kiln" "$@"; }
compile() { gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared -I"$KILN_ROOT/include" "$1" -o "$2" || exit 2; }
cat >odd.c <<'C'
#include <kiln/kit.h>
#include <kiln/sampler.h>
#include <kiln/types.h>
#include <xmmintrin.h>
static kiln_status run(const kiln_call *c) { return c ? KILN_ERR_UNSUPPORTED : KILN_ERR_BUG; }
static kiln_status wants(const kiln_call *c, uint64_t *inputs) { *inputs = 1; return KILN_OK; }
static const kiln_choice bare[] = {{.name = "plain", .value = 0}, {.name = "fancy", .value = 1, .doc = "With a ribbon."}, {0}};
typedef struct { double gain; int32_t mode; const char *file, *text; int64_t whole; } settings;
static const kiln_param params[] = {
    {.name = "gain", .doc = "Help.", .type = KILN_P_FLOAT, .max = 1, .offset = offsetof(settings, gain)},
    {.name = "mode", .doc = "Help.", .type = KILN_P_ENUM, .offset = offsetof(settings, mode), KILN_CHOICES(bare)},
    {.name = "file", .doc = "Help.", .type = KILN_P_FILE, .from = "odd", .def_str = "", .offset = offsetof(settings, file)},
    {.name = "text", .doc = "Help.", .type = KILN_P_STRING, .offset = offsetof(settings, text), .flags = KILN_PARAM_NEUTRAL},
    {.name = "whole", .doc = "Help.", .type = KILN_P_INT, .min = 1, .max = 9, .offset = offsetof(settings, whole), .flags = KILN_PARAM_REQUIRED},
};
static const kiln_port in[] = {
    {.name = "lazy", .doc = "Help.", .type = "IMAGE", .flags = KILN_PORT_LAZY | KILN_PORT_OPTIONAL},
    {.name = "exact", .doc = "Help.", .type = "ODD_TENSOR", .dtypes = 1u << KILN_F32 | 1u << KILN_BF16, .rank_min = 3, .rank_max = 3},
    {.name = "loose", .doc = "Help.", .type = "*T", .dtypes = 1u << KILN_I64, .rank_min = 1, .rank_max = 4, .flags = KILN_PORT_LIST},
};
static const kiln_port out[] = {{.name = "LIST", .doc = "Help.", .type = "*T", .flags = KILN_PORT_LIST, .rank_max = 2}};
static const kiln_port picture[] = {{.name = "IMAGE", .doc = "Help.", .type = "IMAGE"}};
static const kiln_node odd = {.size = sizeof odd, .type = "Odd Node", .doc = "Odd.", .revision = 3, .devices = KILN_CPU, KILN_ARRAY(in, in), KILN_ARRAY(out, out), KILN_ARRAY(param, params), .params_size = sizeof(settings), .run = run, .wants = wants};
static const kiln_node clash = {.size = sizeof clash, .type = "ImageInvert", .title = "Mine", .category = "odd/ones", .doc = "Odd.", .revision = 1, .devices = KILN_CPU, KILN_ARRAY(out, picture), .run = run};
static const kiln_node second = {.size = sizeof second, .type = "ImageBlur", .doc = "Odd.", .revision = 1, .devices = KILN_CPU, KILN_ARRAY(out, picture), .run = run};
static kiln_status sample(const kiln_sampling *s) { return s ? KILN_OK : KILN_ERR_BUG; }
static const kiln_sampler bare_sampler = {.size = sizeof bare_sampler, .name = "odd_bare", .doc = "Bare.", .source = "none", .run = sample};
static const kiln_value_entry entries[] = {{.size = sizeof entries[0], .key = "cells", .doc = "Cells.", .kinds = 1u << KILN_V_TENSOR, .dtypes = 1u << KILN_F32 | 1u << KILN_F16, .rank_min = 1, .rank_max = 2},
                                           {.size = sizeof entries[0], .key = "names", .doc = "Names.", .kinds = 1u << KILN_V_LIST, .item_kinds = 1u << KILN_V_STRING}};
static const kiln_value_type tensor = {.size = sizeof tensor, .name = "ODD_TENSOR", .doc = "Help.", .kind = KILN_V_TENSOR, .dtypes = 1u << KILN_F32, .rank_min = 3, .rank_max = 3},
                             bag = {.size = sizeof bag, .name = "ODD_BAG", .doc = "Help.", .kind = KILN_V_MAP, KILN_ARRAY(entry, entries)},
                             bags = {.size = sizeof bags, .name = "ODD_BAGS", .doc = "Help.", .kind = KILN_V_LIST, KILN_ARRAY(entry, entries)};
static kiln_status open_odd(const kiln_host *h)
{
    const kiln_sampler_api *s = h->ability(KILN_SAMPLER_ABILITY);
    const kiln_types_api *t = h->ability(KILN_TYPES_ABILITY);
    if (t->register_type(&tensor) || t->register_type(&bag) || t->register_type(&bags)) return KILN_ERR_BUG;
    return s->register_sampler(&bare_sampler);
}
__attribute__((constructor)) static void rounds(void) { _mm_setcsr(_mm_getcsr() | 0x8000); }
KILN_PLUGIN_OPEN("org.example.odd", "1.0", "MIT", open_odd, &odd, &clash, &second);
C
mkdir odd && compile odd.c odd/odd.so

# ---- what is shown of nodes, types, samplers
export KILN_PLUGIN_PATH="$work/odd"
expect a_node_without_title_or_category 0 "plugin org.example.odd 1.0, revision 3" k nodes "Odd Node"
for words in "lazy                 IMAGE, optional, computed only if it is wanted" "exact                ODD_TENSOR, f32 bf16, rank 3" "loose                *T, any number of wires, lists whole, i64, rank 1 to 4" "a list, rank 0 to 2" "fancy: With a ribbon." "does not change the result"; do check "it_says_${words// /_}" grep -qF "$words" stdout; done
expect its_json 0 '"dtypes": ["f32", "bf16"]' k nodes "Odd Node" --json
expect in_the_list 0 "Odd Node" k nodes
expect a_clash_keeps_kilns 0 "plugin org.kiln.image" k nodes ImageInvert
expect and_has_its_own_name 0 "Mine" k nodes org.example.odd/ImageInvert
expect clashes_are_said 0 "ImageInvert" k plugins
check floats_are_said grep -q "floating-point" stdout
k plugins --json >p.json; check clashes_in_json python3 -c '
import json
(p,) = [p for p in json.load(open("p.json")) if p["id"] == "org.example.odd"]
assert len(p["clashes"]) == 2 and p["changed_float_mode"] is True and "Odd Node" in p["nodes"], p'
expect types_of_tensors 0 "f32 of 3 dimensions" k types ODD_TENSOR
expect types_of_maps 0 "f32 or f16 of 1 to 2 dimensions" k types ODD_BAG
check with_lists grep -qF "a list, each item a text" stdout
expect types_of_lists 0 "entries of each item" k types ODD_BAGS
expect types_json 0 '"dtypes": ["f32", "f16"]' k types ODD_BAG --json
expect a_sampler_without_options 0 "Bare." k samplers odd_bare
check has_no_options_heading bash -c '! grep -q options: stdout'
cat >flow.yaml <<'Y'
params: {named: ""}
nodes:
  odd: {class_type: Odd Node, inputs: {loose: [empty, 0], exact: [empty, 0], mode: fancy, file: "${named}"}}
  empty: {class_type: EmptyImage, inputs: {width: 8, height: 8}}
  save: {class_type: SaveImage, inputs: {images: [odd, 0]}}
Y
expect a_required_value 2 "input 'whole'" k check flow.yaml
expect what_can_be_set 0 "a file of kind 'odd'" k params flow.yaml
expect a_choice 0 "plain" k completions settings flow.yaml mode

# ---- manifests: none, another's, none that can be read
expect info_without_a_manifest 0 "manifest  none" k plugin info odd/odd.so
check its_nodes_and_samplers bash -c 'grep -q "^nodes     Odd Node: Odd.$" stdout && grep -q "^samplers  odd_bare$" stdout'
expect info_json_without_a_manifest 0 '"nodes": ["Odd Node", ' k plugin info odd/odd.so --json
check its_manifest_is_null grep -q '"manifest": null' stdout
expect list_without_a_manifest 0 "it has no manifest; \`kiln plugin info" k plugin list
expect list_json_without_a_manifest 0 "" k plugin list --json
check is_an_empty_list bash -c '[ "$(tr -d "\n " <stdout)" = "[]" ]'
expect check_notes_it 1 "note: it has no manifest" k plugin check odd/odd.so
echo '{' >odd/kiln-plugin.yaml
expect a_manifest_that_cannot_be_read 1 "odd/kiln-plugin.yaml:" k plugin list
printf 'kiln-plugin: 1\nid: org.example.odd\nname: Odd\nversion: "1.0"\nlicense: GPL\nneeds: "1.0"\nnodes: []\nfiles: [odd.so]\n' >odd/kiln-plugin.yaml
expect info_says_what_differs 1 "license 'GPL' in the manifest, 'MIT' in the plugin" k plugin info odd/odd.so --json
expect a_line_without_nodes 0 "org.example.odd 1.0 (GPL)" k plugin list odd
mkdir refused && echo hello >refused/refused.so
expect info_of_a_refused_one 1 "state     refused" k plugin info refused/refused.so
expect its_json_says_why 1 '"why": ' k plugin info refused/refused.so --json
expect list_loads_nothing 0 "refused.so" k plugin list --plugins refused
expect plugins_says_refused_ones 1 "refused.so" k plugins --plugins refused
expect refused_in_json 1 '"state": "refused"' k plugins --plugins refused --json
cp -r odd shadow && expect shadowed_in_json 0 '"state": "shadowed"' k plugins --plugins shadow --json
unset KILN_PLUGIN_PATH

# ---- actions: what does not fit
expect install_takes_no_kind 2 "kiln plugin install takes no --kind" k plugin install odd --kind node
expect info_wants_a_name 2 "kiln plugin info: it wants" k plugin info
expect an_id_that_is_none 2 "there is no plugin 'a b'" k plugin disable "a b"
expect remove_what_is_not_there 2 "org.example.odd" k plugin remove org.example.odd
expect remove_no_id 2 "odd" k plugin remove odd
expect remove_a_path 2 "a/b.c" k plugin remove a/b.c
expect remove_a_hidden_one 2 ".a.b" k plugin remove .a.b
expect check_of_nothing 2 "there is no file or folder 'nowhere'" k plugin check nowhere
expect check_on_a_device 1 "" k plugin check odd/odd.so --device cpu
expect index_of_nothing 2 "there is no folder 'nowhere'" k plugin index nowhere
expect index_without_plugins 2 "no folder in 'home' has a kiln-plugin.yaml" k plugin index home
cp -r odd text && echo hello >text/odd.so
expect index_of_a_text 2 "odd.so is no shared object" k plugin index text
expect index_of_one 0 "one.json: 1 plugin" k plugin index odd/ -o one.json
check its_folder_is_this_one grep -q '"folder": "."' one.json
mkdir arm && cp odd/kiln-plugin.yaml arm/ && for machine in 'aarch64 \xb7' 'another \x03'; do
    { printf '\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0'; printf "${machine#* }"; printf '\0padding'; } >arm/odd.so
    expect "made_for_${machine% *}" 0 "" k plugin index arm -o arm.json; check "index_says_${machine% *}" grep -q "\"machine\": \"${machine% *}\"" arm.json
done
expect index_nowhere 1 "/proc/x.json" k plugin index odd -o /proc/x.json
for text in '[]' '{}' '{"kiln-plugin-index": 2, "plugins": []}' '{"kiln-plugin-index": 1}' '{"kiln-plugin-index": 1, "plugins": 3}' '{"kiln-plugin-index": [1], "plugins": []}'; do
    echo "$text" >index.json; expect "no_index_$text" 2 "this is no index of plugins" k plugin list index.json
done
echo '{"kiln-plugin-index": 1, "plugins": [{"id": "org.example.a", "version": [1], "nodes": [[], "A", "B"]}, {"id": "org.example.b", "nodes": 3}, {"id": "org.example.c"}]}' >index.json
expect an_index_with_holes 0 "      A, B" k plugin list index.json
same its_json "$(k plugin list index.json --json | python3 -c 'import json, sys; print([len(p["nodes"]) for p in json.load(sys.stdin)])')" "[2, 0, 0]"
expect index_that_is_no_yaml 2 "broken.json:" bash -c "echo '{' >broken.json; '$kiln' plugin list broken.json"

# ---- names of new ones
for wrong in x. 9a A a- a--b ''; do expect "no_name_'$wrong'" 2 "" k plugin new "$wrong"; done
expect no_kind 2 "--kind nodes: it is node, sampler, guider, model or op; did you mean 'node'?" k plugin new a --kind nodes
expect no_kind_at_all 2 "--kind zzzzzzzz: it is node, sampler, guider, model or op" k plugin new a --kind zzzzzzzz
expect no_language 2 "--lang" k plugin new a --lang cobol
for wrong in a .a.b 'a b.c' org.kiln.mine "$(printf 'a.%.0s' $(seq 100))b"; do expect "no_id_${wrong:0:12}" 2 "--id" k plugin new a --id "$wrong"; done
touch taken; expect a_name_that_is_taken 2 "taken" k plugin new taken
expect nothing_is_left 0 "" bash -c '! ls -d a .new-* 2>/dev/null'
(cd /proc && k plugin new here) >stdout 2>log; [ $? -eq 1 ] && grep -q "no folder can be made here" log; verdict where_no_folder_can_be_made $?

# ---- what ops and models show
for kind in op model; do
    k plugin new "my-$kind" --kind $kind >log 2>&1 && compile my-$kind/my_$kind.c my-$kind/my-$kind.so
    expect "info_of_$kind" 0 "${kind}s" k plugin info my-$kind/my-$kind.so
done
exit "$status"
