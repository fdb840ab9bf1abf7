# test_archived_plugin.sh - a plugin that was built long ago (archived/archived-x86_64.so, never rebuilt here) loads into the present
# engine and computes what it did then: parameters of every type, a program and vector ops, weights by rules, a denoiser with named
# inputs and a hook, a sampler, a guider.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
unset KILN_PLUGIN_PATH
export XDG_CACHE_HOME="$work/cache"
archived="$KILN_ROOT/tests/abi/archived"
[ "$(uname -sm)" = "Linux x86_64" ] || { echo "skip archived_plugin: it is of Linux on x86-64"; exit 0; }
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else tail -n 5 "$work/said.txt"; echo "FAIL $1"; status=1; fi
}
mkdir -p "$work/then" "$work/now" "$work/models/checkpoints" "$work/input"
cp "$archived/archived-x86_64.so" "$work/then/archived.so" && chmod 755 "$work/then/archived.so"
python3 "$archived/weights.py" "$work/models/checkpoints/archived.safetensors" && echo note >"$work/input/note.txt"
run() { # NAME ARG...: the workflow, into $work/NAME
    local name=$1; shift
    "$KILN_ROOT/$KILN_BUILD/kiln" run "${workflow:-$archived/workflow.yaml}" --precision f32 --device cpu --no-cache --models "$work/models" --input "$work/input" \
        --out "$work/$name" --plugins "$@" >"$work/said.txt" 2>&1
}
# same OTHER: what the archived plugin wrote: the words, and numbers within 1e-4 of the largest of their line (another CPU adds up in another order)
same() {
    awk 'NR == FNR { line[FNR] = $0; n = FNR; next }
        { words = split(line[FNR], a); if (words != NF) bad = 1; most = 0
          for (i = 2; i <= NF; i++) if ($i + 0 > most) most = $i + 0; else if (-$i > most) most = -$i
          for (i = 1; i <= NF; i++) if (a[i] != $i && (a[1] == "params" || i == 1 || a[i] !~ /^-?[0-9.e+-]+$/ || a[i] - $i > 1e-4 * most || $i - a[i] > 1e-4 * most)) {
              print FILENAME ": line " FNR ", word " i ": " $i ", and it was " a[i]; bad = 1 } }
        END { exit bad || FNR != n || n != 5 }' "$1" "$work/then_out/archived_00001_.txt" >>"$work/said.txt" 2>&1
}
"$KILN_ROOT/$KILN_BUILD/kiln" plugins --plugins "$work/then" >"$work/said.txt" 2>&1 && grep -q 'org\.example\.archived' "$work/said.txt"; verdict it_loads $?
run then_out "$work/then"; verdict it_runs $?
same "$archived/expected.txt"; verdict it_computes_what_it_did $?
run then_dry "$work/then" --dry-run; verdict it_estimates $?

# its own check() and its sentence
workflow="$work/refused.yaml"
sed 's/count: -9/count: 13/' "$archived/workflow.yaml" >"$workflow"
run refused "$work/then"; [ $? -ne 0 ] && grep -q 'which the archived plugin refuses' "$work/said.txt"; verdict its_sentence_arrives $?
workflow=

# the same source, built today: the same bytes
"$BASH" "$archived/build.sh" "$KILN_ROOT/include" "$work/now/archived.so" >"$work/said.txt" 2>&1; verdict its_source_still_builds $?
run now_out "$work/now" && cmp "$work/then_out/archived_00001_.txt" "$work/now_out/archived_00001_.txt" >>"$work/said.txt" 2>&1; verdict built_today_it_computes_the_same $?
exit $status
