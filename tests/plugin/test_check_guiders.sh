# test_check_guiders.sh - `kiln check-plugin` names each of 27 ways in which kinds of GUIDER break their contract, and finds nothing in one that does
# not, in the examples and in kiln's own; what it says of those; levels, JSON, and a device.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache" TMPDIR="$work"
unset KILN_PLUGIN_PATH
umask 022
compile() { gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared -Iinclude "$@" -lm || exit 2; }
about() { awk -v head="guider $1" '/^(guider|node|plugin|file|workflow) / { on = $0 == head } on' "$work/report.txt" >"$work/log"; }

compile tests/plugin/hostile/bad_guider.c -o "$work/bad_guider.so"
"$kiln" check-plugin "$work/bad_guider.so" >"$work/report.txt" 2>&1; same it_fails $? 1
ways=( # NAME|what is said of it
    'wants_nothing|wants .*asks for no set at level 0.2' 'wants_unlisted|wants .*asks for bits 0x23 at level 14.6, .*the row lists 2 sets'
    'wants_changes|wants .*says 0x3 at level 14.6, and 0x1 the next time' 'takes_unasked|call .*no latent, .*at level 14.6 of a diffusion; a set that wants() did not ask for has no guess'
    "counts_unasked|wants .*at level 7 wants() leaves out 'negative', and its guess changes the result by [0-9.]* of its size"
    "writes_guess|read-only .*changed the guess under 'positive'.*create() makes room" 'writes_x|read-only .*changed x, at level'
    'keeps_history|same .*other numbers the second time' 'keeps_step|resume .*goes on with from step [0-9] has other numbers'
    'first_level|resume .*that another process goes on with from step 1 has other numbers: a static or global variable'
    'reads_out|same .*leaves numbers of out as they were' 'leaves_rest|same .*leaves numbers of out as they were' 'option_divides|finite .*NaN or infinity, at the high ends'
    'deaf_to_guided|failure .*returned KILN_OK when call 1 of guided() or patch() had failed' 'deaf_to_patch|failure .*returned KILN_OK when call 2 of guided() or patch() had failed'
    'deaf_to_memory|failure .*returned KILN_OK when call 1 of create() had given NULL' 'refuses_ends|run .*ended with KILN_ERR_INVALID, at the high ends'
    'beyond_settings|options .*goes beyond the 16 bytes of its settings' 'writes_settings|options .*writes to its settings, which are only read'
    'shares|threads .*other numbers at [0-9]* of 16 levels while another sampling ran beside it' 'first_picture|batch .*changes by [0-9.]* of its size when another one is in the batch'
    'whole_only|call .*of another shape, .*on a part of the picture (latents->shape(x) is its shape' 'writes_behind|memory .*wrote behind a latent'
    'aborts|crash .*SIGABRT' 'exits|exit .*status 0' 'without_doc|docs .*has no doc' "offset|table .*'cfg' lies at offset 4096, past the 16 bytes of params_size"
)
for row in "${ways[@]}"; do
    about "bad_${row%%|*}"
    check "${row%%|*}" grep -q "FAIL ${row#*|}" "$work/log"
done
# What is wrong in one way only has no finding of another kind.
for name in shares first_picture without_doc counts_unasked; do
    about bad_$name; same "${name}_alone" "$(grep FAIL "$work/log" | cut -c 1-21 | sort -u | wc -l)" 1
done
for name in wants_nothing takes_unasked writes_behind; do
    about bad_$name; same "${name}_does_not_crash_the_sampling" "$(grep -c 'FAIL crash\|ok   sampling' "$work/log")" 0
    check "${name}_is_not_sampled" grep -q 'not checked: a sampling: .*mend what was found first' "$work/log"
done

compile -DONLY_GOOD tests/plugin/hostile/bad_guider.c -o "$work/good_guider.so"
"$kiln" check-plugin "$work/good_guider.so" --device reference >"$work/report.txt" 2>&1; same a_good_one_passes $? 0
about bad_good
for said in 'wants *positive at 8, negative at 6 of 8 noise levels' "models *'model' for positive, negative" 'run *finite, and the same again, at 12 noise levels' 'part ' 'unasked *.*at 2 levels' \
    'settings *2 further ways' 'batch ' 'equal *guesses that are all the same give that guess back' 'threads ' 'resume *6 steps of euler, the same from each on in another process' \
    'sampling *7 steps of a small network by euler' 'device *7 steps on reference and on the host'; do
    check "says_${said%% *}" grep -q "  ok   $said" "$work/log"
done
check its_badge grep -q 'badge: org.example.bad-guider 1.0.0, kiln 1.[0-9]*: contract yes, behaviour yes, quality yes' "$work/report.txt"
same it_is_no_ability_that_nobody_tries "$(grep -c 'not checked: abilities' "$work/report.txt")" 0
"$kiln" check-plugin "$work/bad_guider.so" --json >"$work/report.json" 2>&1
for level in 'bad_writes_x", "level": "contract", "test": "read-only' 'bad_shares", "level": "behaviour", "test": "threads' 'bad_wants_nothing", "level": "behaviour", "test": "wants' 'bad_first_picture", "level": "quality", "test": "batch'; do
    check "level_of_${level%%\"*}" grep -q "\"kind\": \"guider\", \"name\": \"$level\"" "$work/report.json"
done

# Guesses that agree may give something else: a fact, and no finding.
sed 's/status = g->patch/l->lincomb(l, out, 1, (double[]){0.5}, \&out); status = g->patch/' tests/plugin/hostile/bad_guider.c >"$work/half.c" && compile -DONLY_GOOD "$work/half.c" -o "$work/half.so"
"$kiln" check-plugin "$work/half.so" >"$work/log" 2>&1; same half_of_each_guess_is_no_finding $? 0
check it_is_said grep -q 'ok   equal *guesses that are all the same give another result, up to 0.5 of their size away (no rule)' "$work/log"

for name in interval_guider sampling; do
    compile plugins/examples/$name.c -o "$work/$name.so"
    "$kiln" check-plugin "$work/$name.so" >"$work/log" 2>&1; same "example_$name" $? 0
    check "example_${name}_was_sampled" grep -q 'ok   sampling *7 steps' "$work/log"
done
exit $status
