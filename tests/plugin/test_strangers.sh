# test_strangers.sh - plugins beside kiln's own: who brings a name that is taken is the one to be refused, wherever on the path it
# lies; a plugin's data folder reaches it and is part of its results' keys; the template loads under any umask.
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
refused() { # FOLDER WORDS: kiln's plugins are all there, the newcomer is refused with those words
    "$kiln" plugins --plugins "$1" >run.txt 2>&1
    grep -q "$2" run.txt && [ "$(grep -c 'org\.kiln\.' run.txt)" -ge 8 ] && "$kiln" nodes KSampler --plugins "$1" >>run.txt 2>&1 &&
        "$kiln" run "$KILN_ROOT/workflows/txt2img.yaml" --plugins "$1" --models "$KILN_ROOT/workflows/models" --set steps=1 --out out -q >>run.txt 2>&1
}
refused node 'node type KSampler of org.example.image-gain is already taken by org.kiln.sampler'; verdict a_node_of_a_taken_name_is_refused $?
refused sampler "sampler 'euler' is already registered by org.kiln.sampler"; verdict a_sampler_of_a_taken_name_is_refused $?
cp node/a.so "$work/" && mkdir both && cp node/a.so both/a.so && cp "$KILN_ROOT/$KILN_BUILD"/plugins/kiln-sampler.so both/kiln-sampler.so
refused both 'node type KSampler of org.example.image-gain is already taken by org.kiln.sampler'; verdict a_replacement_of_kilns_own_counts_as_kilns $?

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
"$kiln" check-plugin sampler/a.so >run.txt 2>&1; [ $? -eq 1 ] && grep -q "FAIL table.*'euler' is already registered" run.txt; verdict check_plugin_finds_a_taken_sampler $?

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
