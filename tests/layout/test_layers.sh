# test_layers.sh - the house as docs/architecture.md draws it: the top level, which folder may
# include which, headers that compile alone as C11 and C++17, and words that must not be there.
cd "$KILN_ROOT" || exit 2
status=0
verdict() { # NAME OUTPUT: empty output is a pass
    if [ -z "$2" ]; then echo "ok $1"; else echo "$2" | sed 's/^/  /'; echo "FAIL $1"; status=1; fi
}
files() { git ls-files -- "$@" 2>/dev/null | while read -r f; do [ -e "$f" ] && echo "$f"; done; }

verdict top_level "$(files | cut -d/ -f1 | sort -u | grep -vxE 'Makefile|engine|plugins|nodes|workflows|include|tests|scripts|docs|README\.md|LICENSE|\..*')"

allowed() { # folder of engine/ -> folders it may include
    case $1 in
        base) echo base ;;
        tensor) echo base tensor ;;
        weights) echo base tensor weights ;;
        graph) echo base tensor weights graph ;;
        memory) echo base tensor weights graph memory ;;
        backend) echo base tensor weights graph memory backend ;;
        workflow) echo base tensor workflow ;;
        cache) echo base tensor cache ;;
        plugin) echo base tensor weights graph memory backend plugin ;;
        run) echo base tensor weights graph memory backend plugin workflow cache run ;;
        cli) echo base tensor weights graph memory backend plugin workflow cache run cli ;;
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

verdict plugins_use_the_public_headers_alone "$(grep -nE '#include[[:space:]]*"' $(files 'nodes/*.[ch]' 'plugins/*.[ch]') /dev/null |
    grep -vE '#include[[:space:]]*"(kiln/[a-z_]+\.h|[a-z0-9_]+\.h|nodes/[a-z0-9_]+\.h)"')"

unique=$(files 'engine/*.c' 'engine/*.h' 'nodes/*.c' | sed 's|.*/||' | sort | uniq -d | grep -vxE 'weights\.[ch]|value\.[ch]')
verdict file_names_are_unique "$unique"

broken=""
for header in $(files 'include/kiln/*.h'); do
    gcc -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only -x c "$header" 2>&1 || broken+="$header as C11"$'\n'
    if command -v g++ >/dev/null; then
        g++ -std=c++17 -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ "$header" 2>&1 || broken+="$header as C++17"$'\n'
    fi
done
verdict public_headers_compile_alone "${broken%$'\n'}"

verdict no_fast_math "$(grep -nE -- '-ffast-math|-Ofast|-march=native' Makefile $(files 'plugins/*.mk' 'plugins/*/Makefile' 'scripts/setup') | grep -vE ':[0-9]+:[[:space:]]*#')"
verdict nothing_exits_in_the_engine "$(grep -nE '\b(exit|abort)\(' $(files 'engine/*.c' 'nodes/*.c' 'plugins/*.c' | grep -v '^engine/cli/main.c\|^plugins/examples\|^plugins/template') /dev/null | grep -vE '_exit\(|:[0-9]+:[[:space:]]*(/?\*|//)|"[^"]*\b(exit|abort)\(')"
exit $status
