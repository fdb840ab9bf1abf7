# test_address_space.sh - a run that may only have so much address space (ulimit -v), from hardly any to plenty: it makes the right picture or ends
# by itself with status 1 and a word that names the place; never by a signal, also where a library of others is refused memory.
cd "$KILN_ROOT" || exit 2
kiln="$PWD/$KILN_BUILD/kiln"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
if [[ $KILN_BUILD == *-address || $KILN_BUILD == *-thread ]]; then echo "skip address_space: a sanitizer wants terabytes of it"; exit 0; fi
status=0
draw() { "$kiln" run workflows/txt2img.yaml -q --no-cache --device cpu --set steps=1 --out "$1" --threads 2 "${@:2}"; }
draw "$work/whole" >/dev/null || exit 2
made=0 refused=0 named=0

try() { # MB SETTINGS...
    local mb=$1 end; shift
    rm -rf "$work/out"
    (ulimit -v $((mb * 1000)) && exec "$kiln" run workflows/txt2img.yaml -q --no-cache --device cpu --set steps=1 --out "$work/out" --threads 2 "$@") >"$work/stdout" 2>"$work/log"; end=$?
    if [ $end -eq 0 ]; then
        made=$((made + 1))
        cmp -s "$work/whole/kiln_00001_.png" "$work/out/kiln_00001_.png" || { echo "  $mb MB: status 0, and not the picture"; return 1; }
        return 0
    fi
    refused=$((refused + 1))
    # Before main() it is the loader of programs that has no room (127).
    if [ $end -eq 127 ] && grep -q 'shared librar' "$work/log"; then return 0; fi
    # So it may have for a plugin: its nodes are missing then, before anything is run.
    if [ $end -eq 2 ] && grep -q 'what did not load' "$work/log" && [ ! -e "$work/out/kiln_00001_.png" ]; then return 0; fi
    if [ $end -ne 1 ]; then echo "  $mb MB: status $end: $(tail -n 2 "$work/log")"; return 1; fi
    if [ -e "$work/out/kiln_00001_.png" ]; then echo "  $mb MB: status $end and a picture"; return 1; fi
    if ! grep -q 'kiln: ' "$work/log"; then echo "  $mb MB: status $end without a word"; return 1; fi
    if grep -qE "node '[a-z]+' \([A-Za-z]+\).*(memory|room)" "$work/log"; then named=$((named + 1)); fi
    return 0
}

wrong=0
for mb in $(seq 60 "${KILN_STEP_MB:-20}" 700); do try "$mb" || wrong=$((wrong + 1)); done
echo "  $made made the picture, $refused were refused, $named of them with the node's name"
if [ $wrong -eq 0 ] && [ $made -gt 0 ] && [ $refused -gt 0 ] && [ $named -gt 0 ]; then echo "ok any_address_space"; else echo "FAIL any_address_space"; status=1; fi
exit $status
