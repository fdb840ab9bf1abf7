# test_broken_manifests.sh - a manifest that cannot be read is named with its line by every `kiln plugin` command, of a folder and of what is installed.
. "$KILN_ROOT/tests/cli/head.sh"
umask 022
unset KILN_PLUGIN_PATH
export HOME="$work/home" XDG_CACHE_HOME="$work/cache" XDG_DATA_HOME="$work/data"
cd "$work" || exit 2
says() { local name=$1; shift; expect "$name" "$1" "$2" "$kiln" plugin "${@:3}"; }

"$kiln" plugin new soft-glow >/dev/null || exit 2
gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared -I"$KILN_ROOT/include" soft-glow/soft_glow.c -o soft-glow/soft-glow.so && rm soft-glow/soft-glow.yaml || exit 2
id=org.example.soft-glow manifest="$work/data/kiln/plugins/org.example.soft-glow/kiln-plugin.yaml"

# ---- each key as what it is not: info of the folder
broken() { # NAME SED WORDS
    cp soft-glow/kiln-plugin.yaml whole && sed -i "$2" soft-glow/kiln-plugin.yaml
    says "$1" 2 "$3" info soft-glow
    mv whole soft-glow/kiln-plugin.yaml
}
broken a_name_that_is_a_list 's/^name:.*/name: [a, b]/' 'kiln-plugin.yaml:4:7: name: it is one line of text'
broken a_version_of_two_lines 's/^version:.*/version: "1\\n2"/' 'version: it is one line of text'
broken nodes_that_are_a_word 's/^nodes:.*/nodes: SoftGlow/' 'nodes: it is a list of names, as [A, B]'
broken a_node_that_is_a_map 's/^nodes:.*/nodes: [{a: b}]/' 'nodes: it is a list of names, as [A, B]'
broken a_node_of_two_lines 's/^nodes:.*/nodes: ["a\\nb"]/' 'nodes: it is a list of names, as [A, B]'
broken no_nodes '/^nodes:/d' 'it does not say nodes'
broken no_files '/^files:/d' 'it does not say files'
broken no_shared_object 's/^files:.*/files: [README.md]/' "files: none of them is the plugin's .so"
broken two_shared_objects 's/^files:.*/files: [soft-glow.so, other.so]/' 'files: both soft-glow.so and other.so; a plugin is one .so'
broken a_shared_object_below 's|^files:.*|files: [deep/soft-glow.so]|' "there is no 'deep/soft-glow.so' beside the manifest"
broken an_empty_path 's/^files:.*/files: [""]/' 'files: it is a list of names, as [A, B]'
broken a_path_through_the_folder 's|^files:.*|files: [./soft-glow.so]|' "files: './soft-glow.so' is no path below the manifest's folder"
broken an_empty_step 's|^files:.*|files: [a//b]|' "files: 'a//b' is no path below the manifest's folder"
broken an_id_with_a_blank 's/^id:.*/id: soft glow/' "id: 'soft glow' is no id; it is like org.example.soft-glow"
broken a_hidden_id 's/^id:.*/id: .soft/' "id: '.soft' is no id"
broken needs_a_word 's/^needs:.*/needs: one.two/' "needs: 'one.two' is no version of the contract"
broken needs_a_whole_number 's/^needs:.*/needs: 1/' "needs: '1' is no version of the contract"
broken an_unlike_key 's/^doc:/zzzzzz:/' "a manifest has no 'zzzzzz'"
broken a_list 's/^.*$/- a/' 'this is no manifest of a plugin'
broken nothing d 'the file is empty'

# ---- the same of what is installed: no command goes on with half of it
says install 0 "$id 0.1.0 is installed" install soft-glow
for text in 'name: [' 'nam: x' 'id: 3' '- 1'; do
    printf 'kiln-plugin: 1\nid: %s\n%s\n' "$id" "$text" >"$manifest"
    says "info_of_$text" 2 "$manifest" info "$id"
    says "info_as_json_of_$text" 2 "$manifest" info "$id" --json
    says "check_of_$text" 2 "$manifest" check "$id"
    says "list_with_$text" 1 "$manifest" list
done
expect its_nodes_are_there_still 0 SoftGlow "$kiln" nodes SoftGlow
says it_can_be_removed 0 "$id" remove "$id"

# ---- a manifest of another plugin's file beside it is not taken for this one's
cp soft-glow/soft-glow.so soft-glow/second.so
says a_manifest_of_another 0 "manifest  none" info soft-glow/second.so
says of_its_own 0 "it agrees with the plugin" info soft-glow/soft-glow.so
# Nor that of the last plugin on the search path, where none has the id.
says of_nobodys 0 "manifest  none" info org.kiln.image --plugins soft-glow

# ---- an index that is none, and one with holes
for text in '' '{}' '[]' '{"kiln-plugin-index": 2, "plugins": []}' '{"kiln-plugin-index": 1, "plugins": 3}'; do
    printf '%s' "$text" >index.json
    says "an_index_of_'$text'" 2 "index.json" list index.json
done
echo '{"kiln-plugin-index": 1, "plugins": [{"id": "a.b", "nodes": "word"}, {"id": "c.d", "nodes": [["x"], "Y"], "version": [1]}]}' >index.json
says an_index_with_holes 0 "c.d" list index.json
check nodes_that_are_names_alone grep -q '^ *Y$' stdout
exit $status
