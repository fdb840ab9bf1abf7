# test_layers.sh - the house as docs/architecture.md draws it: the top level, which folder may
# include which, headers that compile alone as C11 and C++17, and words that must not be there.
cd "$KILN_ROOT" || exit 2
status=0
verdict() { # NAME OUTPUT: empty output is a pass
    if [ -z "$2" ]; then echo "ok $1"; else echo "$2" | sed 's/^/  /'; echo "FAIL $1"; status=1; fi
}
files() { git ls-files -- "$@" 2>/dev/null | while read -r f; do [ -e "$f" ] && echo "$f"; done; }

verdict top_level "$(files | cut -d/ -f1 | sort -u | grep -vxE 'Makefile|bindings|engine|plugins|nodes|workflows|include|tests|scripts|docs|README\.md|LICENSE|\..*')"
verdict models_name_no_machine "$(grep -rlE '"_name_or_path": *"/' --include=*.json workflows tests 2>/dev/null)"

allowed() { # folder of engine/ -> folders it may include
    case $1 in
        base) echo base ;;
        param) echo base param ;;
        tensor) echo base tensor ;;
        weights) echo base tensor weights ;;
        graph) echo base tensor weights graph ;;
        memory) echo base tensor weights graph memory ;;
        backend) echo base tensor weights graph memory backend ;;
        workflow) echo base tensor param workflow ;;
        cache) echo base tensor cache ;;
        plugin) echo base tensor weights graph memory backend param plugin ;;
        run) echo base tensor weights graph memory backend param plugin workflow cache run ;;
        api) echo base param tensor weights graph memory backend plugin workflow cache run api ;;
        cli) echo base tensor weights graph memory backend param plugin workflow cache run cli ;;
    esac
}
wrong=""
for file in $(files 'engine/*.c' 'engine/*.h'); do
    folder=$(echo "$file" | cut -d/ -f2)
    may=" $(allowed "$folder") kiln "
    while read -r header; do
        [[ $may == *" ${header%%/*} "* ]] || wrong+="$file includes $header"$'\n'
    done < <(sed -nE 's|^#include "([^"]+/[^"]+)".*|\1|p' "$file")
done
verdict layers "${wrong%$'\n'}"

# A plugin's files see include/kiln/ and the plugin's own two folders, nodes/NAME and plugins/NAME.
cross=""
for file in $(files 'nodes/*.[ch]' 'plugins/*.[ch]' | grep -vE '^plugins/(examples|template|templates)/'); do
    name=$(echo "$file" | cut -d/ -f2)
    while read -r header; do
        [[ $header == kiln/* && -e include/$header ]] || [ -e "nodes/$name/$header" ] || [ -e "plugins/$name/$header" ] ||
            cross+="$file includes $header, which is not of plugin '$name'"$'\n'
    done < <(sed -nE 's|^#[[:space:]]*include[[:space:]]*"([^"]+)".*|\1|p' "$file")
done
verdict a_plugin_includes_its_own_and_the_public_headers "${cross%$'\n'}"

# The nodes that sample use what any plugin can use, kiln/sampling.h, and nothing of the sampling core; nor do the kinds of GUIDER we bring, but for the
# formula that the nodes share.
public=""
while read -r file allowed; do
    while read -r header; do
        [[ $header == kiln/* || " $allowed " == *" $header "* ]] || public+="$file includes $header, which is not public"$'\n'
    done < <(sed -nE 's|^#[[:space:]]*include[[:space:]]*"([^"]+)".*|\1|p' "$file")
done <<END
nodes/sampler/ksampler.c sampler_nodes.h sampler_rows.h
nodes/sampler/custom_sampling.c sampler_nodes.h sampler_rows.h
nodes/sampler/sampler_rows.h
plugins/sampler/guiders.h
plugins/sampler/guiders.c guiders.h model_guidance.h
plugins/sampler/model_guidance.h
plugins/sampler/model_guidance.c model_guidance.h
END
verdict sampling_nodes_and_guiders_use_the_public_ability "${public%$'\n'}"

verdict only_folders_in_nodes_and_plugins "$(files 'nodes/*' 'plugins/*' | grep -vE '^(nodes|plugins)/[a-z_]+/')"

# What a node folder is called, its plugin is called; a plugin with an entry table alone has no folder in plugins/.
verdict a_folder_of_plugins_has_code "$(files 'plugins/*.c' | awk -F/ '
    { seen[$2] = 1 } $3 !~ /_plugin\.c$/ { code[$2] = 1 } END { for (d in seen) if (!code[d]) print "plugins/" d " has nothing but an entry table" }')"

unique=$(files 'engine/*.c' 'engine/*.h' 'nodes/*.c' 'nodes/*.h' 'plugins/*.c' 'plugins/*.h' | sed 's|.*/||' | sort | uniq -d | grep -vxE 'weights\.[ch]|value\.[ch]')
verdict file_names_are_unique "$unique"

broken=""
for header in $(files 'include/kiln/*.h'); do
    gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only -x c "$header" 2>&1 || broken+="$header as C11"$'\n'
    if command -v g++ >/dev/null; then
        g++ -std=c++17 -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ "$header" 2>&1 || broken+="$header as C++17"$'\n'
    fi
done
verdict public_headers_compile_alone "${broken%$'\n'}"

# The walks of docs/architecture.md name a file and a function of it on each line.
verdict the_walks_name_what_is_there "$(sed -nE 's|^    (([a-z_]+/)+[a-z_]+\.[ch]) +([a-z_]+).*|\1 \3|p' docs/architecture.md | while read -r file name; do
    case $file in nodes/* | plugins/* | include/*) ;; *) file=engine/$file ;; esac
    grep -qw "$name" "$file" 2>/dev/null || echo "docs/architecture.md: $file has no $name"; done)"

# Words of our own that the field has a term for (docs/architecture.md, "Words"): as identifiers they do not come back.
verdict private_words_are_gone "$(grep -nwE 'keeper|keeper_[a-z_]+|foreseen?|outlook|[a-z_]*_outlook|rehears[a-z]*|twins?|residency_know|lasting|[a-z]+_wish|lies_there|(x|in|out|guess|kept|guide|place|room|has_room)_there|told_[a-z]+|product_(grid|shape|mma|few|tile)|cu_product[a-z_]*|n_bands|cu_lookup|[a-z_]*movement|held_[a-z]+|n_held|[a-z]+_room|[A-Z_]*_ROOM|stranger_[a-z]+' $(files 'engine/*.[ch]' 'engine/*.cu' 'nodes/*.[ch]' 'plugins/*.[ch]' 'include/*.h'))"

verdict no_fast_math "$(grep -nE -- '-ffast-math|-Ofast|-march=native' Makefile $(files 'plugins/*.mk' 'plugins/*/Makefile' 'scripts/setup') | grep -vE ':[0-9]+:[[:space:]]*#')"
verdict nothing_exits_in_the_engine "$(grep -nE '\b(exit|abort)\(' $(files 'engine/*.c' 'nodes/*.c' 'plugins/*.c' | grep -v '^engine/cli/main.c\|^plugins/examples\|^plugins/template') /dev/null | grep -vE '_exit\(|:[0-9]+:[[:space:]]*(/?\*|//)|"[^"]*\b(exit|abort)\(')"
exit $status
