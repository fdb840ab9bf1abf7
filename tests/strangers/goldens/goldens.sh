# goldens.sh - what the tests of strangers here share: kiln is installed, a plugin is built against the installed headers alone, and latents are held
# against goldens by the nodes of golden_nodes.c. To be sourced; $work, $kiln and $prefix are set then.
status=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
umask 022
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else echo "FAIL $1"; status=1; fi
}
unset MAKEFLAGS MFLAGS MAKELEVEL KILN_PLUGIN_PATH
export XDG_CACHE_HOME="$work/xdg"
prefix="$work/usr" kiln="$work/usr/bin/kiln"
make -s -C "$KILN_ROOT" install NVCC= PREFIX="$prefix" DEBUG="$(case $KILN_BUILD in *debug*) echo 1 ;; esac)" \
    SAN="$(case $KILN_BUILD in *-undefined-address) echo undefined,address ;; *-address) echo address ;; *-undefined) echo undefined ;; *-thread) echo thread ;; esac)" >"$work/install.txt" 2>&1 ||
    { tail -n 5 "$work/install.txt"; echo "FAIL install"; exit 1; }
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
mkdir "$work/plugins"
build() { # NAME.so SOURCES...: as anybody builds a plugin
    local out="$work/plugins/$1"; shift
    # shellcheck disable=SC2046
    cc -std=c11 -O1 -Wall -Wextra -Wshadow -Wconversion -Werror -fPIC -fvisibility=hidden -ffp-contract=off $(pkg-config --cflags kiln) -shared "$@" -o "$out" -ljansson -lm &&
        chmod go-w "$out"
}
# run NAME WORKFLOW ARG...: into $work/NAME, what is said into $work/NAME.txt
run() {
    local name=$1 file=$2; shift 2
    "$kiln" run "$file" --precision f32 --plugins "$work/plugins" --models "${models:-$here/models}" --input "${input:-$here:$here/input}" --out "$work/$name" "$@" >"$work/$name.txt" 2>&1
}
# as_golden NAME RUN [GOLDEN]: that run held its result against the golden, and was within 1e-5 of it
as_golden() {
    local error; error=$(sed -n "s/^golden golden\.${3:-$1} //p" "$work/$2.txt" | head -n 1)
    awk -v e="${error:-none}" 'BEGIN { exit !(e != "none" && e != "nan" && e + 0 <= 1e-5) }'
    result=$?; [ $result -eq 0 ] || grep -v '^golden' "$work/$2.txt" | tail -n 5
    echo "# $1: ${error:-not compared}"
    verdict "$1" $result
}
# on_device NAME WORKFLOW: the same over the emulated device, where it was built; no fault of memory or streams
on_device() {
    local emu; emu=$(realpath "$KILN_ROOT/$KILN_BUILD/emu/kiln-cuda-emu.so" 2>/dev/null)
    [ -e "$emu" ] || return 1
    KILN_CUDA_LIBRARY=$emu KILN_EMU_REPORT=$work/report run "$1" "$2" --no-cache --device cuda && grep -q '^faults 0 kernel_faults 0 ' "$work/report"
    verdict "$1" $?
}
# refused NAME WORKFLOW STATUS WORDS: the run fails with that exit status and says so
refused() {
    run "$1" "$2" --no-cache; local got=$?
    [ $got -eq "$3" ] && grep -qE "$4" "$work/$1.txt"; result=$?
    [ $result -eq 0 ] || { echo "  exit status $got"; tail -n 3 "$work/$1.txt" | cut -c 1-600; }
    verdict "$1" $result
}
# steps_of EVENTS: the steps that were reported; of quick ones a part is
steps_of() { sed -n 's/.*"what": "step", "done": \([0-9]*\).*/\1/p' "$1" 2>/dev/null; }
# longer WORKFLOW WORD: what WORD counts there, four times as much of it
longer() { awk -v word="$2: " '{ while (match($0, word "[0-9]+")) { n = length(word); printf "%s%s%d", substr($0, 1, RSTART - 1), word, 4 * substr($0, RSTART + n, RLENGTH - n); $0 = substr($0, RSTART + RLENGTH) } print }' "$1" >"$1.longer" && mv "$1.longer" "$1"; }
# killed_midway WORKFLOW STEP ENDED: killed once STEP was reported, its state in $work/cache. A processor that is through before that (ENDED says so)
# gets a longer workflow.
killed_midway() {
    local file=$1 pid seen
    for _ in 1 2 3 4 5; do
        rm -rf "$work/cache" "$work/cut" "$work/events"
        "$kiln" run "$file" --precision f32 --plugins "$work/plugins" --models "${models:-$here/models}" --input "${input:-$here:$here/input}" --out "$work/cut" \
            --cache "$work/cache" --save-state 0.000001 --events "$work/events" >"$work/cut.txt" 2>&1 & pid=$!
        while kill -0 $pid 2>/dev/null; do
            seen=$(steps_of "$work/events" | tail -n 1); [ "${seen:-0}" -lt "$2" ] || break
            sleep 0.01
        done
        { kill -KILL $pid; wait $pid; } 2>/dev/null
        eval "$3" || return 0
        longer "$file" steps; longer "$file" tokens
    done
    echo "  it ends before it can be killed"; return 1
}
# resumes_after_a_kill WORKFLOW: killed in the middle of a sampling and run once more, it goes on and ends with the same bytes
resumes_after_a_kill() {
    local file=$1 begun
    killed_midway "$file" 3 '[ -e "$work/cut/samples_00001_.f32" ]' && run whole "$file" --no-cache || return 1
    run rest "$file" --cache "$work/cache" --events "$work/events" || return 1
    begun=$(steps_of "$work/events" | head -n 1)
    [ "${begun:-0}" -gt 1 ] && cmp "$work/whole/samples_00001_.f32" "$work/rest/samples_00001_.f32" || { echo "  begun at step ${begun:-?}"; return 1; }
}
# in_the_least_memory WORKFLOW FILE BYTES: refused with what it needs at least, it runs in that, through weights that are streamed, and FILE has the same bytes
in_the_least_memory() {
    local budget=100K said last=
    while ! run least "$1" --no-cache --memory $budget; do
        said=$(sed -nE 's/.* needs ([0-9.]+) ([kM])B at least.*/\1 \2/p' "$work/least.txt" | head -n 1)
        budget=$(awk -v n="${said% *}" -v unit="${said#* }" -v last="${last:-0}" 'BEGIN { b = n * (unit == "M" ? 1e6 : 1e3) * 1.01; printf "%d", (b > last ? b : last * 1.05) }')
        [ -n "$said" ] || { tail -n 3 "$work/least.txt" | cut -c 1-600; return 1; }
        last=$budget
    done
    [ -n "$last" ] && [ -s "$3" ] && cmp "$work/least/$2" "$3"
}
