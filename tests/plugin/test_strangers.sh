# test_strangers.sh - plugins beside kiln's own: who brings a name that is taken gets another, wherever on the path it lies, and its id
# before a name reaches either; a plugin's data folder reaches it and is part of its results' keys; the template loads under any umask.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
export XDG_CACHE_HOME="$work/cache"
unset KILN_PLUGIN_PATH
kiln="$KILN_ROOT/$KILN_BUILD/kiln"
cd "$work" || exit 2
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else cat run.txt; echo "FAIL $1"; status=1; fi
}
compile() { gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared -I"$KILN_ROOT/include" "$1" -o "$2" -lm || exit 2; }

# ---- names that are taken: a node of kiln's, a sampler of kiln's
mkdir node sampler
sed 's/"ImageGain"/"KSampler"/' "$KILN_ROOT/plugins/template/image_gain.c" >node.c && compile node.c node/a.so
sed 's/"example_midpoint"/"euler"/' "$KILN_ROOT/plugins/examples/midpoint.c" >sampler.c && compile sampler.c sampler/a.so
gives_way() { # FOLDER WORDS: kiln's plugins are all there and the newcomer too, under another name, and both commands say those words
    "$kiln" plugins --plugins "$1" >run.txt 2>&1
    grep -q "$2" run.txt && [ "$(grep -c '^org\.kiln\.' run.txt)" -ge 8 ] && ! grep -q '/a\.so was not loaded' run.txt && "$kiln" nodes KSampler --plugins "$1" >>run.txt 2>&1 &&
        "$kiln" run "$KILN_ROOT/workflows/txt2img.yaml" --plugins "$1" --models "$KILN_ROOT/workflows/models" --set steps=1 --out out >said.txt 2>&1 &&
        grep -q "kiln: warning: $2" said.txt
}
gives_way node 'node type KSampler of org.example.image-gain (.*node/a.so) is already taken by org.kiln.sampler (.*); use it as org.example.image-gain/KSampler'; verdict a_node_of_a_taken_name_gives_way $?
gives_way sampler "sampler 'euler' is already registered by org.kiln.sampler (.*sampler/a.so); use it as org.example.midpoint/euler"; verdict a_sampler_of_a_taken_name_gives_way $?
cp node/a.so "$work/" && mkdir both && cp node/a.so both/a.so && cp "$KILN_ROOT/$KILN_BUILD"/plugins/kiln-sampler.so both/kiln-sampler.so
gives_way both 'node type KSampler of org.example.image-gain (.*both/a.so) is already taken by org.kiln.sampler (.*)'; verdict a_replacement_of_kilns_own_counts_as_kilns $?

# ---- an id before the name reaches either: in workflows of both kinds, `kiln nodes`, `kiln params`, pictures
mkdir invert
cat >invert.c <<'C'
#include "kiln/kit.h"
static kiln_status run(const kiln_call *c) { return c->out[0] = c->host->ref(c->in[0]), KILN_OK; }
static const kiln_port image[] = {{.name = "image", .type = "IMAGE", .doc = "Pictures."}};
static const kiln_node same = {KIT_NODE("ImageInvert", "As it is", "t", "Inverts nothing."), KILN_ARRAY(in, image), KILN_ARRAY(out, image), .run = run};
static const kiln_node other = {KIT_NODE("OtherOfX", "Other", "t", "The same."), KILN_ARRAY(in, image), KILN_ARRAY(out, image), .run = run};
KILN_PLUGIN("org.example.x", "1.0.0", "MIT", &same, &other);
C
compile invert.c invert/x.so
picture() { # TYPE FORMAT: the workflow with such a node, and what the first pixel becomes
    if [ "$2" = yaml ]; then cat >"w.$2" <<Y
nodes:
  blank: {class_type: EmptyImage, inputs: {width: 64, height: 64, batch_size: 1, color: 255}}
  it: {class_type: $1, inputs: {image: [blank, 0]}}
  save: {class_type: SaveImage, inputs: {images: [it, 0], filename_prefix: p}}
Y
    else cat >"w.$2" <<J
{"1": {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 64, "batch_size": 1, "color": 255}},
 "2": {"class_type": "$1", "inputs": {"image": ["1", 0]}},
 "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0], "filename_prefix": "p"}}}
J
    fi
    rm -rf pic; "$kiln" run "w.$2" --plugins invert --out pic -q >run.txt 2>&1 && python3 -c '
import struct, sys, zlib
d = open(sys.argv[1], "rb").read(); i, z = 8, b""
while i < len(d):
    n = struct.unpack(">I", d[i:i + 4])[0]
    if d[i + 4:i + 8] == b"IDAT": z += d[i + 8:i + 8 + n]
    i += 12 + n
row = zlib.decompress(z)
print(*row[1:4])' pic/p_00001_.png
}
for format in yaml json; do
    [ "$(picture ImageInvert $format)" = "255 255 0" ]; verdict the_plain_name_is_kilns_$format $?
    [ "$(picture org.kiln.image/ImageInvert $format)" = "255 255 0" ]; verdict kilns_id_reaches_kilns_$format $?
    [ "$(picture org.example.x/ImageInvert $format)" = "0 0 255" ]; verdict the_newcomers_id_reaches_it_$format $?
    "$kiln" run pic/p_00001_.png --plugins invert --out again -q >>run.txt 2>&1; verdict and_its_picture_runs_$format $?
    "$kiln" params w.$format --plugins invert >run.txt 2>&1; verdict and_its_parameters_are_listed_$format $?
    [ "$(picture org.example.x/OtherOfX $format)" = "0 0 255" ] && [ "$(picture OtherOfX $format)" = "0 0 255" ]; verdict its_other_nodes_have_both_names_$format $?
done
"$kiln" nodes org.example.x/ImageInvert --plugins invert >run.txt 2>&1 && grep -q 'Inverts nothing' run.txt; verdict kiln_nodes_finds_the_newcomer $?
"$kiln" nodes org.kiln.image/ImageInvert --plugins invert >run.txt 2>&1 && ! grep -q 'Inverts nothing' run.txt; verdict kiln_nodes_finds_kilns $?
"$kiln" nodes --json --plugins invert 2>/dev/null | python3 -c 'import json, sys; n = [x["type"] for x in json.load(sys.stdin)]; assert "ImageInvert" in n and "org.example.x/ImageInvert" in n and len(n) == len(set(n))' 2>run.txt; verdict the_list_has_both $?
"$kiln" plugins --json --plugins invert 2>/dev/null | python3 -c 'import json, sys; p = [x for x in json.load(sys.stdin) if x.get("id") == "org.example.x"][0]; assert p["state"] == "loaded" and "ImageInvert" in p["clashes"][0]' 2>run.txt; verdict the_list_of_plugins_has_the_clash $?
printf 'nodes:\n  blank: {class_type: EmptyImage, inputs: {width: 64, height: 64, batch_size: 1, color: 1}}\n  it: {class_type: org.example.y/ImageInvert, inputs: {image: [blank, 0]}}\n' >w.yaml
"$kiln" check w.yaml --plugins invert >run.txt 2>&1; [ $? -eq 2 ] && grep -q "no node type is called 'org.example.y/ImageInvert'" run.txt; verdict a_plugin_that_is_not_there $?
"$kiln" run "$KILN_ROOT/workflows/txt2img.yaml" --plugins sampler --models "$KILN_ROOT/workflows/models" --set steps=1 --set sampler.sampler_name=org.example.midpoint/euler --out other -q >run.txt 2>&1; verdict a_sampler_by_its_plugins_id $?

# ---- data of its own
cat >words.c <<'C'
#include "kiln/plugin.h"
#include "kiln/value.h"
#include <stdio.h>
#include <string.h>
static const kiln_host *host;
static const char *folder;
static kiln_status run(const kiln_call *c)
{
    char path[4096], text[100] = "";
    const kiln_value_api *v = c->host->ability(KILN_VALUE_ABILITY);
    if (!folder || host->data_folder()) return c->host->fail(c->ctx, KILN_ERR_INVALID, "no data, or outside open()");
    snprintf(path, sizeof path, "%s/deep/word", folder);
    FILE *f = fopen(path, "r");
    if (f) fgets(text, sizeof text, f), fclose(f);
    return (c->out[0] = v->new_string(c->ctx, text, strlen(text))) ? KILN_OK : KILN_ERR_NOMEM;
}
static kiln_status open_plugin(const kiln_host *h) { host = h, folder = h->data_folder(); return KILN_OK; }
static const kiln_port out[] = {{.name = "STRING", .type = "STRING", .doc = "What the file says."}};
static const kiln_node node = {.size = sizeof node, .flags = KILN_NODE_PURE, .devices = KILN_CPU, .revision = 1, .type = "Word", .doc = "A word.", KILN_ARRAY(out, out), .run = run};
static kiln_status tell(const kiln_call *c)
{
    const kiln_value_api *v = c->host->ability(KILN_VALUE_ABILITY);
    c->host->log(KILN_LOG_WARN, v->get_string(c->in[0], NULL));
    return KILN_OK;
}
static const kiln_port in[] = {{.name = "text", .type = "STRING", .doc = "What to say."}};
static const kiln_node teller = {.size = sizeof teller, .flags = KILN_NODE_OUTPUT, .devices = KILN_CPU, .revision = 1, .type = "Tell", .doc = "Says it.", KILN_ARRAY(in, in), .run = tell};
KILN_PLUGIN_OPEN("org.example.words", "1.0.0", "MIT", open_plugin, &node, &teller);
C
mkdir -p "a folder/words.data/deep" && compile words.c "a folder/words.so" && printf 'hello' >"a folder/words.data/deep/word"
cat >words.yaml <<'Y'
nodes:
  word: { class_type: Word }
  show: { class_type: Tell, inputs: { text: [word, STRING] } }
Y
say() { "$kiln" run words.yaml --plugins "a folder" --cache kept --events events >run.txt 2>&1; }
say && grep -q hello run.txt; verdict the_data_reaches_the_plugin $?
say && grep '"node": "word"' events | grep -q '"from": "cache"'; verdict the_result_is_kept $?
printf 'howdy' >"a folder/words.data/deep/word"
say && grep -q howdy run.txt; verdict other_data_is_another_result $?
chmod o+w "a folder/words.data/deep/word"
"$kiln" plugins --plugins "a folder" >run.txt 2>&1; grep -q 'words.data/deep/word: can be written by anyone' run.txt; verdict data_that_others_may_write_is_refused $?
chmod o-w "a folder/words.data/deep/word"; mkfifo "a folder/words.data/pipe"
"$kiln" plugins --plugins "a folder" >run.txt 2>&1; grep -q 'words.data/pipe: is neither a file nor a folder' run.txt; verdict a_pipe_among_the_data_is_refused $?
rm -r "a folder/words.data"
say; [ $? -eq 1 ] && grep -q 'no data, or outside open()' run.txt; verdict without_data_it_is_told_so $?

# ---- check-plugin says what it checked, also of a plugin whose nodes it cannot run
"$kiln" check-plugin "$KILN_ROOT/$KILN_BUILD/plugins/kiln-loader.so" >run.txt 2>&1
[ $? -eq 1 ] && grep -q 'not checked: CheckpointLoaderSimple: its parameter' run.txt && grep -q 'FAIL nothing .*could be tried' run.txt; verdict check_plugin_never_counts_nothing $?
"$kiln" check-plugin sampler/a.so >run.txt 2>&1; [ $? -eq 1 ] && grep -q "FAIL names.*'euler' is already registered" run.txt; verdict check_plugin_finds_a_taken_sampler $?

# ---- the template, built by somebody whose umask is 002
umask 002
cp -r "$KILN_ROOT/plugins/template" "$KILN_ROOT/plugins/examples" . && chmod -R g+w template examples
chgrp -R 1 template examples 2>/dev/null # a group with others in it, where this user may say so
mkdir -p pc && sed -e "s|@PREFIX@|$KILN_ROOT|" -e 's|@VERSION@|0|' "$KILN_ROOT/scripts/kiln.pc.in" >pc/kiln.pc
for what in template examples; do
    PKG_CONFIG_PATH="$work/pc" make -s -C $what MAKEFLAGS= >run.txt 2>&1 && "$kiln" plugins --plugins $what >>run.txt 2>&1 && ! grep -qi 'written by' run.txt && grep -q 'org\.example' run.txt
    verdict "${what}_built_under_umask_002" $?
done
exit $status
