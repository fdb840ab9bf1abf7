# test_plugin_command.sh - `kiln plugin`: what is installed is whole or not there, is found and used by every command, is listed without its code being
# loaded, can be disabled and removed; a manifest that differs is said; an index that others can read.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
unset KILN_PLUGIN_PATH KILN_MODELS KILN_INPUT MAKEFLAGS MFLAGS MAKELEVEL
export HOME="$work/home" XDG_CACHE_HOME="$work/cache" XDG_DATA_HOME="$work/data"
kiln="$KILN_ROOT/$KILN_BUILD/kiln" user="$work/data/kiln/plugins"
mkdir "$work/home" && cd "$work" || exit 2
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else head -n 12 said.txt; echo "FAIL $1"; status=1; fi
}
# says NAME STATUS WORDS ARGUMENT...: the command ends with this status and prints these words
says() {
    local name=$1 want=$2 words=$3 got; shift 3
    "$kiln" "$@" >said.txt 2>&1; got=$?
    [ $got -eq "$want" ] && grep -qF -- "$words" said.txt; verdict "$name" $?
}
compile() { gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared -I"$KILN_ROOT/include" "$1" -o "$2" || exit 2; }
left() { find "$user" -name '.install-*' -o -name '.remove-*' | grep -q .; }

"$kiln" plugin new soft-glow >/dev/null && "$kiln" plugin new other-one >/dev/null || exit 2
compile soft-glow/soft_glow.c soft-glow/soft-glow.so && compile other-one/other_one.c other-one/other-one.so
mkdir -p soft-glow/soft-glow.data/deep && echo hello >soft-glow/soft-glow.data/deep/word
sed -i 's/^files:.*/files: [soft-glow.so, soft-glow.data, README.md, kiln-plugin.yaml]/' soft-glow/kiln-plugin.yaml
id=org.example.soft-glow

# ---- installing
says installs_a_folder 0 "$id 0.1.0 is installed in $user/$id" plugin install soft-glow
[ -x "$user/$id/soft-glow.so" ] && [ -s "$user/$id/soft-glow.data/deep/word" ] && [ -s "$user/$id/README.md" ] && [ -s "$user/$id/kiln-plugin.yaml" ] && [ ! -e "$user/$id/soft_glow.c" ] && ! left; verdict with_the_files_that_its_manifest_names $?
says it_is_on_the_search_path 0 "SoftGlow" nodes SoftGlow
says kiln_plugins_has_it 0 "$user/$id/soft-glow.so" plugins
cat >glow.yaml <<'Y'
nodes:
  dark: {class_type: EmptyImage, inputs: {width: 16, height: 8, color: 4210752}}
  glow: {class_type: SoftGlow, inputs: {image: [dark, IMAGE], gain: 2}}
  save: {class_type: SaveImage, inputs: {images: [glow, IMAGE]}}
Y
says it_runs 0 "" run glow.yaml --no-cache -q --out out
says a_second_time_wants_replace 2 "$id is installed already, in $user/$id; --replace takes its place" plugin install soft-glow
! left; verdict nothing_is_left $?
sed -i 's/0\.1\.0/0.2.0/' soft-glow/soft_glow.c soft-glow/kiln-plugin.yaml && compile soft-glow/soft_glow.c soft-glow/soft-glow.so
says replaced 0 "$id 0.2.0 is installed" plugin install soft-glow --replace
says the_new_one_is_there 0 "$id 0.2.0" plugins
! left && [ "$(ls "$user")" = "$id" ]; verdict the_old_one_is_gone $?

# A .so alone gets the manifest that its table makes, and its data comes along.
mkdir alone && cp other-one/other-one.so alone/ && mkdir alone/other-one.data && echo x >alone/other-one.data/x
says installs_a_file 0 "org.example.other-one 0.1.0 is installed" plugin install alone/other-one.so
[ -s "$user/org.example.other-one/other-one.data/x" ] && grep -q '^nodes: \["OtherOne"\]' "$user/org.example.other-one/kiln-plugin.yaml"; verdict with_a_manifest_of_its_own $?
says that_manifest_agrees 0 "it agrees with the plugin" plugin info org.example.other-one
"$kiln" plugin remove org.example.other-one >/dev/null; rm -r alone

# ---- what is not installed: whole or not at all
before=$(find "$user" | sort)
fails() { # NAME WORDS FOLDER
    "$kiln" plugin install --replace "$3" >said.txt 2>&1
    local got=$?
    [ $got -ne 0 ] && grep -qF -- "$2" said.txt && [ "$(find "$user" | sort)" = "$before" ] && "$kiln" nodes SoftGlow >/dev/null 2>&1; verdict "$1" $?
}
copy() { rm -rf broken && cp -r soft-glow broken; }
copy; sed -i 's/0\.2\.0/0.3.0/' broken/kiln-plugin.yaml; fails a_manifest_of_another_version "version '0.3.0' in the manifest, '0.2.0' in the plugin" broken
copy; sed -i 's/\[SoftGlow\]/[SoftGlow, Second]/' broken/kiln-plugin.yaml; fails a_node_that_is_not_there "the plugin has no node Second" broken
copy; sed -i 's/\[SoftGlow\]/[]/' broken/kiln-plugin.yaml; fails a_node_that_is_not_named "node SoftGlow is not in the manifest" broken
copy; rm broken/README.md; fails a_file_that_is_missing "kiln-plugin.yaml:10:8: files: there is no 'README.md' beside the manifest" broken
copy; rm broken/soft-glow.so; fails a_plugin_that_is_not_built "there is no 'soft-glow.so' beside the manifest; is it built?" broken
copy; sed -i 's|README.md|../soft-glow/README.md|' broken/kiln-plugin.yaml; fails a_file_outside "'../soft-glow/README.md' is no path below the manifest's folder" broken
copy; sed -i 's|README.md|/etc/passwd|' broken/kiln-plugin.yaml; fails an_absolute_path "'/etc/passwd' is no path below" broken
copy; mkfifo broken/soft-glow.data/pipe; fails a_pipe_among_its_data "is neither a file nor a folder" broken
copy; sed -i 's/^license/licence/' broken/kiln-plugin.yaml; fails a_misspelt_key "a manifest has no 'licence'; did you mean 'license'?" broken
copy; sed -i 's/^kiln-plugin: 1/kiln-plugin: 2/' broken/kiln-plugin.yaml; fails a_later_format "this manifest is of version 2; this kiln reads version 1" broken
copy; sed -i '/^id:/d' broken/kiln-plugin.yaml; fails no_id "it does not say id" broken
copy; echo '{' >broken/kiln-plugin.yaml; fails no_yaml "broken/kiln-plugin.yaml:" broken
copy; sed -i 's/^needs:.*/needs: "1.9"/' broken/kiln-plugin.yaml; fails another_contract "needs '1.9' in the manifest, '1.0' in the plugin" broken
copy; printf '#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { abort(); }\n' | cat - soft-glow/soft_glow.c >broken/soft_glow.c; compile broken/soft_glow.c broken/soft-glow.so; fails one_that_crashes "crashed with SIGABRT" broken
copy; sed -i 's/"SoftGlow"/"KSampler"/' broken/soft_glow.c; sed -i 's/\[SoftGlow\]/[KSampler]/' broken/kiln-plugin.yaml; compile broken/soft_glow.c broken/soft-glow.so; fails a_node_of_kilns "KSampler" broken
copy; echo hello >broken/soft-glow.so; fails no_shared_object "soft-glow.so" broken
(ulimit -f 8; trap '' XFSZ; "$kiln" plugin install --replace soft-glow) >said.txt 2>&1; [ $? -eq 1 ] && [ "$(find "$user" | sort)" = "$before" ] && grep -q "soft-glow.so: File too large" said.txt; verdict a_full_disk_leaves_what_was_there $?
mkdir "$user/.install-999999" && touch "$user/.install-999999/x" && "$kiln" plugin install --replace soft-glow >said.txt 2>&1 && ! left; verdict what_a_killed_one_left_is_removed $?
says nothing_of_that_name 2 "there is no file or folder 'nowhere', and no plugin of this id" plugin install nowhere
mkdir bare; says a_folder_without_a_manifest 2 "the folder 'bare' has no kiln-plugin.yaml; name the .so file" plugin install bare
(unset XDG_DATA_HOME HOME; "$kiln" plugin install soft-glow) >said.txt 2>&1; [ $? -eq 1 ] && grep -q "no home folder to install into; set HOME" said.txt; verdict no_home $?

# ---- listing: no code is loaded
cat >trap.c <<'C'
#include <fcntl.h>
__attribute__((constructor)) static void loaded(void) { open("loaded", O_CREAT | O_WRONLY, 0600); }
C
cat trap.c soft-glow/soft_glow.c >both.c && cp -r soft-glow trapped && compile both.c trapped/soft-glow.so
says list_says_what_it_is 0 "$id 0.2.0 (MIT)  Say here in one line what it is good for." plugin list trapped
says list_has_its_nodes 0 "SoftGlow" plugin list trapped
says list_of_the_search_path 0 "$user/$id/soft-glow.so" plugin list --plugins trapped
says list_counts_kilns_own 0 " ship with kiln" plugin list
! grep -q '\\n' said.txt; verdict list_ends_its_lines $?
[ ! -e loaded ]; verdict no_code_was_loaded $?
"$kiln" plugins --plugins trapped >said.txt 2>&1; [ -e loaded ]; verdict the_trap_works $?
"$kiln" plugin list --json >said.txt && python3 -c '
import json
(p,) = json.load(open("said.txt"))
assert p["id"] == "org.example.soft-glow" and p["nodes"] == ["SoftGlow"] and p["needs"] == "1.0" and p["disabled"] is False, p'; verdict list_as_json $?
says list_of_nothing 2 "there is no folder or index 'nowhere'" plugin list nowhere
says list_of_a_folder_without 2 "no folder in 'bare' has a kiln-plugin.yaml" plugin list bare

# ---- info
says info_by_id 0 "contract  1.0 (this kiln has 1." plugin info $id
says info_by_folder 0 "licence   MIT" plugin info soft-glow
says info_by_file 0 "nodes     SoftGlow: Multiplies every sample" plugin info soft-glow/soft-glow.so
says info_of_kilns_own 0 "nodes" plugin info org.kiln.image
says info_has_samplers 0 "samplers  euler" plugin info org.kiln.sampler
says info_of_nobody 2 "there is no plugin 'org.example.nobody'" plugin info org.example.nobody
copy; sed -i 's/0\.2\.0/0.9.0/' broken/kiln-plugin.yaml; says info_tells_what_differs 1 "version '0.9.0' in the manifest, '0.2.0' in the plugin" plugin info broken
says check_tells_what_differs 1 "FAIL manifest" plugin check broken
says check_by_id 0 "ok   manifest" plugin check $id

# ---- what the template left to its author
says a_template_s_doc_is_named 0 "note placeholder    kiln-plugin.yaml:7 says 'doc: Say here in one line what it is good for', as the template does: write as doc what the plugin does" plugin check soft-glow
grep -q "README.md:3 says 'Say here what it is good for', as the template does: write there what the plugin does" said.txt; verdict so_is_its_README $?
grep -q "kiln-plugin.yaml:3 says 'id: org.example.', as the template does: begin the id with a domain of yours" said.txt; verdict so_is_its_id $?
says a_note_is_no_finding 0 '"event": "note", "kind": "manifest"' plugin check soft-glow --json
copy; sed -i 's/^doc:.*/doc: Glows./; s/org\.example/net.glow/' broken/kiln-plugin.yaml; sed -i 's/Say here what it is good for\./It glows./' broken/README.md; sed -i 's/org\.example\.soft/net.glow.soft/' broken/soft_glow.c; compile broken/soft_glow.c broken/soft-glow.so
says what_was_written_is_left_alone 0 "ok   manifest" plugin check broken
! grep -q placeholder said.txt; verdict without_a_note $?
"$kiln" plugin info $id --json >said.txt && python3 -c '
import json
p = json.load(open("said.txt"))
assert p["state"] == "loaded" and p["contract"] == "1.0" and p["manifest"].endswith("kiln-plugin.yaml") and "manifest_differs" not in p, p'; verdict info_as_json $?

# ---- disabling
says disables 0 "$id is not loaded any more" plugin disable $id
says disabled_is_said 0 "$id is disabled; \`kiln plugin enable $id\` lets it in again" plugins
"$kiln" plugins --json | python3 -c 'import json, sys; assert [p["state"] for p in json.load(sys.stdin) if "soft-glow" in p["path"]] == ["disabled"]' >said.txt 2>&1; verdict disabled_in_json $?
says its_node_is_gone 2 "SoftGlow" run glow.yaml --no-cache -q --out out
says list_says_disabled 0 "[disabled]" plugin list
says info_says_disabled 0 "state     disabled" plugin info $id
rm -f loaded; cp trapped/soft-glow.so "$user/$id/"; "$kiln" plugins >said.txt 2>&1; [ ! -e loaded ]; verdict a_disabled_file_is_never_loaded $?
says nor_its_id_elsewhere 0 "is disabled" plugins --plugins soft-glow
says disabled_twice 0 "was disabled already" plugin disable $id
says enables 0 "$id is loaded again" plugin enable $id
says and_it_is_there 0 "SoftGlow" nodes SoftGlow
says enabled_twice 0 "was not disabled" plugin enable $id
says kilns_own_stays 2 "org.kiln.image is kiln's own" plugin disable org.kiln.image
says disable_nobody 2 "there is no plugin 'org.example.nobody'" plugin disable org.example.nobody

# ---- an index
mkdir -p shelf && cp -r soft-glow other-one shelf/
says index 0 "shelf/kiln-plugins.json: 2 plugins" plugin index shelf/
python3 - "$(stat -c %s soft-glow/soft-glow.so)" >said.txt 2>&1 <<'P'
import json, sys
index = json.load(open("shelf/kiln-plugins.json"))
assert index["kiln-plugin-index"] == 1
other, glow = index["plugins"]
assert (other["folder"], glow["folder"]) == ("other-one", "soft-glow") and glow["nodes"] == ["SoftGlow"]
assert [f["path"] for f in glow["files"]] == ["soft-glow.so", "soft-glow.data", "README.md", "kiln-plugin.yaml"]
assert glow["files"][0]["bytes"] == int(sys.argv[1]) and len(glow["files"][0]["xxh128"]) == 32 and "bytes" not in glow["files"][1]
assert glow["machine"] in ("x86_64", "aarch64")
P
verdict index_has_all $?
says index_can_be_listed 0 "org.example.other-one 0.1.0 (MIT)" plugin list shelf/kiln-plugins.json
says index_elsewhere 0 "elsewhere.json: 2 plugins" plugin index shelf -o elsewhere.json
cmp -s elsewhere.json shelf/kiln-plugins.json; verdict index_is_the_same_again $?
says index_of_nothing 2 "no folder in 'bare' has a kiln-plugin.yaml" plugin index bare
echo '{"a": 1}' >no.json; says no_index 2 "no.json: this is no index of plugins" plugin list no.json
rm shelf/soft-glow/soft-glow.so; says index_of_what_is_not_built 2 "is it built?" plugin index shelf -o third.json
[ ! -e third.json ]; verdict a_broken_index_is_not_written $?

# ---- whoever makes folders that all may write to has plugins all the same
(umask 000; XDG_DATA_HOME="$work/open data" "$kiln" plugin install soft-glow && XDG_DATA_HOME="$work/open data" "$kiln" nodes SoftGlow) >said.txt 2>&1; verdict any_umask $?
# Two at once: one of them is installed, the other says so.
mkdir race; for i in 1 2 3 4; do XDG_DATA_HOME="$work/race" "$kiln" plugin install soft-glow >race/said$i 2>&1 & done; wait
cat race/said* >said.txt; [ "$(grep -c ' is installed in ' said.txt)" -eq 1 ] && [ "$(grep -c 'is installed already' said.txt)" -eq 3 ] && [ "$(ls -A race/kiln/plugins)" = "$id" ]; verdict several_at_once $?

# ---- removing
"$kiln" plugin disable $id >/dev/null
says a_node_of_one_that_is_disabled 2 "no node type is called 'SoftGlow'; it is in $id, which is disabled: kiln plugin enable $id" run glow.yaml --no-cache
says removes 0 "$id is removed" plugin remove $id
[ "$(ls "$user")" = disabled ] && [ ! -s "$user/disabled" ] && ! left; verdict nothing_of_it_is_left $?
says remove_twice 2 "no plugin '$id' is installed for this user" plugin remove $id
says remove_what_lies_elsewhere 2 "was not installed by \`kiln plugin install\`; it is soft-glow/soft-glow.so" plugin remove soft-glow
says remove_with_a_path 2 "../.." plugin remove ../..
cp glow.yaml soft-glow/glow.yaml
says a_node_of_one_beside_the_workflow 2 "no node type is called 'SoftGlow'; it is in soft-glow/soft-glow.so: add --plugins soft-glow" run soft-glow/glow.yaml --no-cache
(cd soft-glow && says a_node_of_one_in_the_working_folder 2 "no node type is called 'SoftGlow'; it is in ./soft-glow.so: add --plugins ." run glow.yaml --no-cache; exit $status) || status=1
sed 's/SoftGlow/ImageVignette/' glow.yaml >vignette.yaml
says no_far_fetched_name 2 "no node type is called 'ImageVignette'; \`kiln nodes\` lists those there are" run vignette.yaml --no-cache
says no_action 2 "kiln plugin: do what?" plugin
exit $status
