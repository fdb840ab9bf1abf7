# test_library.sh - libkiln.so and kiln/engine.h: installed, used from C and from Python, with the clone out of reach.
# What it exports is the header and nothing else; the command and the library draw the same bytes.
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
. "$KILN_ROOT/tests/cli/installed.sh"
status=0
verdict() { if [ "$2" -eq 0 ]; then echo "ok $1"; else echo "FAIL $1"; status=1; fi; }

prefix="$work/prefix"
install_kiln "$prefix"; verdict it_is_installed $?
lib="$prefix/lib/libkiln.so"
exported=$(nm -D --defined-only "$lib" | awk '{ print $3 }' | sort)
declared=$(sed -nE 's/^KILN_EXPORT .*[ *](kiln_[a-z_]+)\(.*/\1/p' "$prefix/include/kiln/engine.h" | sort)
[ -n "$declared" ] && [ "$exported" = "$declared" ]; verdict it_exports_the_header_and_nothing_else $?

major=$(sed -n 's/^#define KILN_ABI_MAJOR //p' "$prefix/include/kiln/plugin.h")
[ "$(objdump -p "$lib" | awk '$1 == "SONAME" { print $2 }')" = "libkiln.so.$major" ] && [ -f "$lib.$major" ]; verdict its_soname_has_the_contracts_major $?
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig" LD_LIBRARY_PATH="$prefix/lib" KILN_CACHE=off
cp "$KILN_ROOT/docs/library/run_workflow.c" "$KILN_ROOT/docs/library/run_workflow.py" "$KILN_ROOT/tests/library/ways.c" .
san=""
case $KILN_BUILD in *-undefined-address) san="-fsanitize=undefined,address" ;; *-address) san="-fsanitize=address" ;; *-undefined) san="-fsanitize=undefined" ;; *-thread) san="-fsanitize=thread" ;; esac
# shellcheck disable=SC2046,SC2086
for what in run_workflow ways; do
    cc -std=c11 -Wall -Wextra -Wpedantic -Werror $san $what.c -o $what $(pkg-config --cflags --libs kiln-engine) >cc.txt 2>&1 || { cat cc.txt; false; }
    verdict "${what}_compiles_against_the_installed_header" $?
done

cp "$prefix/share/kiln/workflows/txt2img.yaml" .
inside() { without_clone "$@"; [ $? -ne 125 ] || env -u KILN_ROOT -u KILN_BUILD "$@"; }
inside "$prefix/bin/kiln" run txt2img.yaml --set seed=7 --out command -q >command.txt 2>&1; verdict the_command_draws $?
inside ./run_workflow txt2img.yaml c seed=7 >c.txt 2>&1; verdict a_program_in_c_draws $?
grep -q '"event": "file"' c.txt; verdict events_come_as_json $?
cmp command/kiln_00001_.png c/kiln_00001_.png; verdict the_same_bytes_as_the_command $?
grep -vE '^\{|nodes ran' c.txt | head -n 3 | sed 's/^/  /'
! grep -qvE '^\{|nodes ran' c.txt; verdict it_prints_nothing_of_its_own $?

./run_workflow txt2img.yaml c sampler.steps=minus >bad.txt 2>&1
[ $? -eq 2 ] && grep -q "txt2img.yaml.*steps" bad.txt; verdict a_fault_names_place_and_remedy $?
./run_workflow nowhere.yaml >bad.txt 2>&1; [ $? -eq 1 ] && grep -q 'nowhere.yaml' bad.txt; verdict a_file_that_is_not_there $?

./ways >ways.txt 2>&1; cat ways.txt; grep -q '^ok the_last_way' ways.txt || { echo "FAIL ways_ran_to_the_end"; status=1; }
! grep -q '^FAIL' ways.txt || status=1

if command -v python3 >/dev/null && [ -z "$san" ]; then
    KILN_LIBRARY="$lib" python3 run_workflow.py txt2img.yaml py seed=7 >py.txt 2>&1; verdict python_draws $?
    cmp command/kiln_00001_.png py/kiln_00001_.png && grep -q 'kiln_00001_.png' py.txt; verdict the_same_bytes_from_python $?
    KILN_LIBRARY="$lib" python3 run_workflow.py txt2img.yaml py sampler.step=7 >py.txt 2>&1; [ $? -eq 1 ] && grep -q "did you mean 'steps'" py.txt; verdict a_fault_from_python $?
else
    echo "skip python: no python3, or a sanitizer that it would have to be started with"
fi
exit $status
